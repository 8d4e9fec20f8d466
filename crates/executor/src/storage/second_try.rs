//! A second try of a call that takes long, beside the first.
//!
//! A server that hung and works again often does not answer the requests that it had accepted before. A client that waits
//! for them until its time-out notices the end of the outage late. A short time-out would notice it early, but then a
//! server that is only slow could never answer.

use std::pin::pin;
use std::time::Duration;

/// After this time without an answer the call is tried again. It is longer than almost every call takes, so that second
/// tries are rare, and it bounds how late the end of an outage is noticed.
pub const SECOND_TRY_AFTER: Duration = Duration::from_secs(3);

/// Makes a call, which must be idempotent. After each `interval` without an answer it is made once more: the first call
/// goes on, an older second one is dropped. So at most two are in flight. The first answer counts, whatever it is.
pub async fn with_second_try<T, F>(interval: Duration, mut call: impl FnMut() -> F) -> T
where
    F: Future<Output = T>,
{
    let mut first = pin!(call());
    if let Ok(answer) = tokio::time::timeout(interval, first.as_mut()).await {
        return answer;
    }
    loop {
        tokio::select! {
            answer = first.as_mut() => return answer,
            answer = call() => return answer,
            () = tokio::time::sleep(interval) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::pending;

    use tokio::time::{Instant, sleep};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_quick_call_is_made_once() {
        let calls = Cell::new(0);
        let answer = with_second_try(3 * SECOND, || {
            calls.set(calls.get() + 1);
            async { sleep(2 * SECOND).await }
        });
        answer.await;
        assert_eq!(calls.get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_an_outage_is_noticed_within_the_interval() {
        let started = Instant::now();
        // Calls before second 60 are never answered.
        with_second_try(3 * SECOND, || async {
            if started.elapsed() < 60 * SECOND {
                pending::<()>().await;
            }
        })
        .await;
        assert!(started.elapsed() <= 63 * SECOND, "{:?}", started.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_server_still_answers_the_first_call() {
        let (started, calls) = (Instant::now(), Cell::new(0));
        let answer = with_second_try(3 * SECOND, || {
            calls.set(calls.get() + 1);
            let number = calls.get();
            async move {
                sleep(20 * SECOND).await;
                number
            }
        })
        .await;
        assert_eq!((answer, started.elapsed()), (1, 20 * SECOND));
        assert_eq!(calls.get(), 7, "one more after each interval");
    }
}
