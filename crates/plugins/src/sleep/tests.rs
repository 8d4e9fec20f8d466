#![allow(clippy::unwrap_used, clippy::panic)]
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use aileron_idl::flyteidl2::core::{LiteralType, Primitive, Scalar, VariableEntry, VariableMap};
use aileron_machinery::{Phase, ServiceError, StoredState, TaskServices};

use super::*;

/// What reading the inputs brings.
struct Inputs(Option<LiteralMap>);

#[async_trait]
impl TaskServices for Inputs {
    async fn inputs(&self) -> Result<LiteralMap, ServiceError> {
        self.0.clone().ok_or_else(|| ServiceError::new("no such file"))
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn variable(name: &str, simple: SimpleType) -> VariableMap {
    let literal_type = LiteralType { r#type: Some(literal_type::Type::Simple(simple.into())), ..Default::default() };
    let value = Some(Variable { r#type: Some(literal_type), ..Default::default() });
    VariableMap { variables: vec![VariableEntry { key: name.into(), value }] }
}

fn interface() -> TypedInterface {
    TypedInterface { inputs: Some(variable("d", SimpleType::Duration)), outputs: None }
}

fn seconds(name: &str, value: primitive::Value) -> Inputs {
    let primitive = scalar::Value::Primitive(Primitive { value: Some(value) });
    let value = Some(literal::Value::Scalar(Box::new(Scalar { value: Some(primitive) })));
    Inputs(Some(LiteralMap { literals: [(name.to_owned(), Literal { value, ..Default::default() })].into() }))
}

fn duration(seconds: i64) -> primitive::Value {
    primitive::Value::Duration(prost_types::Duration { seconds, nanos: 0 })
}

fn handle(
    interface: TypedInterface,
    data: &Inputs,
    running_since: Option<i64>,
    now: i64,
) -> Result<CoreStep, PluginError> {
    let template = TaskTemplate { interface: Some(interface), ..Default::default() };
    let mut task = aileron_machinery::testing::task(TASK_TYPE, &serde_json::Value::Null);
    (task.template, task.now) = (Arc::new(template), at(now));
    let state = StoredState::default();
    let request = CoreRequest::new(&task, &state).with_running_since(running_since.map(at)).with_services(data);
    let future = pin!(SleepPlugin.handle(&request));
    match { future }.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(step) => step,
        Poll::Pending => panic!("a sleep waits for nothing but its inputs"),
    }
}

fn step(running_since: Option<i64>, now: i64) -> (Phase, Option<Timestamp>) {
    let step = handle(interface(), &seconds("d", duration(12)), running_since, now).unwrap();
    assert_eq!(step.state, None);
    (step.phase.phase(), step.wake_at)
}

#[test]
fn it_wakes_once_and_counts_from_the_stored_start() {
    assert_eq!(step(None, 100), (Phase::Running, Some(at(112))));
    assert_eq!(step(Some(100), 105), (Phase::Running, Some(at(112))));
    assert_eq!(step(Some(100), 112), (Phase::Success, None));
}

#[test]
fn no_time_at_all_is_over_at_once() {
    let step = handle(interface(), &seconds("d", duration(0)), None, 100).unwrap();
    assert_eq!(step.phase.phase(), Phase::Success);
}

#[test]
fn a_sleep_beyond_the_calendar_just_sleeps() {
    let step = handle(interface(), &seconds("d", duration(i64::MAX)), None, 100).unwrap();
    assert_eq!((step.phase.phase(), step.wake_at), (Phase::Running, Some(Timestamp::MAX)));
}

#[test]
fn a_definition_that_cannot_sleep_fails_for_good() {
    let wrong = TypedInterface { inputs: Some(variable("d", SimpleType::Integer)), outputs: None };
    let outputs = TypedInterface { outputs: Some(variable("o", SimpleType::Integer)), ..interface() };
    let good = seconds("d", duration(1));
    for (interface, data, message) in [
        (TypedInterface::default(), &good, "task type [core-sleep] requires exactly one duration input"),
        (outputs, &good, "task type [core-sleep] does not support outputs"),
        (wrong, &good, "input [d] must be typed as duration"),
        (interface(), &seconds("other", duration(1)), "duration input [d] is missing"),
        (interface(), &seconds("d", primitive::Value::Integer(1)), "duration input [d] must be a duration literal"),
        (interface(), &seconds("d", duration(-1)), "duration input [d] must be non-negative"),
    ] {
        let step = handle(interface, data, None, 0).unwrap();
        let error = step.phase.error().unwrap();
        assert_eq!(step.phase.phase(), Phase::PermanentFailure);
        assert_eq!((error.code.as_str(), error.message.as_str()), ("BadTaskSpecification", message));
    }
}

#[test]
fn unreadable_inputs_are_not_the_tasks_fault() {
    let error = handle(interface(), &Inputs(None), None, 0).unwrap_err();
    assert_eq!(error.to_string(), "failed to read task inputs: no such file");
    assert_eq!(error.non_retryable_code(), None);
}
