//! Pods on the node: real processes, with the in-memory API server.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "node/cluster.rs"]
mod cluster;

use std::time::{Duration, Instant};

use aileron_sandbox::NodeOptions;
use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{DeleteParams, LogParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use cluster::{Cluster, phase, sh, status_of, value};

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_runs_and_succeeds() {
    let cluster = Cluster::start().await;
    cluster
        .create("p", json!({"restartPolicy": "Never", "containers": [sh("main", "echo hello; echo oops >&2")]}))
        .await;
    let pod = cluster.ended("p").await;
    assert_eq!(phase(&pod), "Succeeded");
    let status = value(&pod)["status"].clone();
    assert_eq!((&status["podIP"], &status["hostIP"]), (&json!("127.0.0.1"), &json!("127.0.0.1")));
    assert_eq!(status["qosClass"], "BestEffort");
    let terminated = &status["containerStatuses"][0]["state"]["terminated"];
    assert_eq!((&terminated["exitCode"], &terminated["reason"]), (&json!(0), &json!("Completed")));
    assert!(terminated["startedAt"].as_str() <= terminated["finishedAt"].as_str());
    let conditions: Vec<String> = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{}={}", one["type"], one["status"]))
        .collect();
    assert_eq!(
        conditions.join(" ").replace('"', ""),
        "PodScheduled=True Initialized=True ContainersReady=False Ready=False"
    );
    assert_eq!(cluster.log("p", "main").await, "hello\noops\n");
    let file = cluster.files(&pod).join("logs/main/0.log");
    assert!(std::fs::read_to_string(file).unwrap().ends_with(" oops\n"));
    // The scheduler records its event after the binding, while the node already works.
    let (scheduler, node): (Vec<_>, Vec<_>) =
        cluster.events("p", 4).await.into_iter().partition(|event| event.contains("default-scheduler"));
    assert_eq!(scheduler, ["Normal Scheduled default-scheduler: Successfully assigned default/p to sandbox"]);
    assert_eq!(
        node,
        [
            "Normal Pulled kubelet: Container image \"host\" already present on machine",
            "Normal Created kubelet: Created container: main",
            "Normal Started kubelet: Started container main",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_and_termination_messages_are_reported() {
    let cluster = Cluster::start().await;
    let mut quiet = sh("quiet", "echo last words >&2; exit 4");
    quiet["terminationMessagePolicy"] = "FallbackToLogsOnError".into();
    let containers = [
        sh("code", "printf why > dev/termination-log; exit 3"),
        sh("signal", "kill -s SEGV $$"),
        sh("named", "echo told > $AILERON_SANDBOX_TERMINATION_LOG"),
        quiet,
    ];
    cluster.create("p", json!({"restartPolicy": "Never", "containers": containers})).await;
    let pod = cluster.ended("p").await;
    assert_eq!(phase(&pod), "Failed");
    let ended = |name: &str| {
        let terminated = status_of(&pod, name)["state"]["terminated"].clone();
        let message = terminated["message"].as_str().unwrap_or_default().to_owned();
        (terminated["exitCode"].as_i64().unwrap(), terminated["reason"].as_str().unwrap().to_owned(), message)
    };
    let (error, done) = ("Error".to_owned(), "Completed".to_owned());
    assert_eq!(ended("code"), (3, error.clone(), "why".to_owned()));
    assert_eq!(ended("signal"), (128 + 11, error.clone(), String::new()));
    assert_eq!(ended("named"), (0, done, "told\n".to_owned()));
    assert_eq!(ended("quiet"), (4, error, "last words\n".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn init_containers_run_first_and_sidecars_keep_running() {
    let cluster = Cluster::start().await;
    let volume = json!([{"name": "shared", "emptyDir": {"medium": "Memory"}}]);
    let with = |name: &str, script: &str| {
        let mut container = sh(name, script);
        container["volumeMounts"] = json!([{"name": "shared", "mountPath": "/shared"}]);
        container
    };
    let mut sidecar =
        with("sidecar", "trap 'echo stopped; exit 0' TERM; echo side >> shared/order; while :; do sleep 0.05; done");
    sidecar["restartPolicy"] = "Always".into();
    let wait = "while ! grep -q side shared/order; do sleep 0.02; done";
    let init = [
        with("one", "sleep 0.1; echo one >> shared/order"),
        sidecar,
        with("two", &format!("{wait}; echo two >> shared/order")),
    ];
    let main = [with("main", "echo main >> shared/order; cat shared/order")];
    cluster
        .create("p", json!({"restartPolicy": "Never", "volumes": volume, "initContainers": init, "containers": main}))
        .await;
    let pod = cluster.ended("p").await;
    assert_eq!(phase(&pod), "Succeeded");
    assert_eq!(cluster.log("p", "main").await, "one\nside\ntwo\nmain\n");
    assert!(
        cluster.log("p", "sidecar").await.ends_with("stopped\n"),
        "the sidecar is stopped after the main containers have ended"
    );
    assert!(status_of(&pod, "sidecar")["state"]["terminated"].is_object());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_init_container_fails_the_pod() {
    let cluster = Cluster::start().await;
    cluster.create("p", json!({"restartPolicy": "Never", "initContainers": [sh("init", "exit 7")], "containers": [sh("main", "true")]})).await;
    let pod = cluster.ended("p").await;
    assert_eq!(phase(&pod), "Failed");
    assert_eq!(status_of(&pod, "init")["state"]["terminated"]["exitCode"], 7);
    assert_eq!(status_of(&pod, "main")["state"]["waiting"]["reason"], "PodInitializing");
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_and_files_come_from_config_maps_and_secrets() {
    let cluster = Cluster::start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let secrets: Api<Secret> = Api::default_namespaced(cluster.client());
    let map = json!({"metadata": {"name": "settings"}, "data": {"COLOUR": "red", "file.txt": "from a map"}});
    maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    let secret = json!({"metadata": {"name": "keys"}, "stringData": {"token": "s3cret"}});
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let mut main = sh(
        "main",
        "echo $M_COLOUR $TOKEN $POD $CPU $(TOKEN); cat config/file.txt; echo; cat keys/t; echo; cat about/name; echo; stat -Lc %a keys/t",
    );
    main["envFrom"] = json!([{"prefix": "M_", "configMapRef": {"name": "settings"}}]);
    main["env"] = json!([
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
    ]);
    main["resources"] = json!({"limits": {"cpu": "100m"}});
    main["volumeMounts"] = json!([
        {"name": "config", "mountPath": "/config"}, {"name": "keys", "mountPath": "/keys"}, {"name": "about", "mountPath": "/about"},
    ]);
    let volumes = json!([
        {"name": "config", "configMap": {"name": "settings"}},
        {"name": "keys", "secret": {"secretName": "keys", "items": [{"key": "token", "path": "t", "mode": 0o400}]}},
        {"name": "about", "projected": {"sources": [
            {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        ]}},
    ]);
    cluster.create("p", json!({"restartPolicy": "Never", "volumes": volumes, "containers": [main]})).await;
    cluster.ended("p").await;
    assert_eq!(cluster.log("p", "main").await, "red s3cret p 100 s3cret\nfrom a map\ns3cret\np\n400\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_waits_for_a_missing_config_map() {
    let cluster = Cluster::start().await;
    let mut main = sh("main", "echo $X");
    main["env"] = json!([{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "x"}}}]);
    cluster.create("p", json!({"restartPolicy": "Never", "containers": [main]})).await;
    let pod = cluster.until("p", |pod| waits_for(pod, "main", "CreateContainerConfigError")).await;
    assert_eq!(status_of(&pod, "main")["state"]["waiting"]["message"], "configmap \"late\" not found");
    assert_eq!(phase(&pod), "Pending");
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let map = json!({"metadata": {"name": "late"}, "data": {"x": "arrived"}});
    maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    cluster.ended("p").await;
    assert_eq!(cluster.log("p", "main").await, "arrived\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn host_paths_are_refused() {
    let cluster = Cluster::start().await;
    let volumes = json!([{"name": "h", "hostPath": {"path": "/etc"}}]);
    cluster
        .create("p", json!({"restartPolicy": "Never", "volumes": volumes, "containers": [sh("main", "true")]}))
        .await;
    let pod = cluster.until("p", |pod| waits_for(pod, "main", "CreateContainerConfigError")).await;
    let message = status_of(&pod, "main")["state"]["waiting"]["message"].clone();
    assert!(message.as_str().unwrap().contains("hostPath is refused"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_containers_share_only_their_volume() {
    let cluster = Cluster::start().await;
    let mount = json!([{"name": "v", "mountPath": "/v"}]);
    let mut writer = sh("writer", "echo from writer > v/x.tmp; mv v/x.tmp v/x; touch own");
    let mut reader = sh(
        "reader",
        "while ! cat v/x 2>/dev/null; do sleep 0.02; done; ls; pwd; echo $HOME; env | cut -d= -f1 | sort | tr '\\n' ' '",
    );
    writer["volumeMounts"] = mount.clone();
    reader["volumeMounts"] = mount;
    let volumes = json!([{"name": "v", "emptyDir": {}}]);
    cluster.create("p", json!({"restartPolicy": "Never", "volumes": volumes, "containers": [writer, reader]})).await;
    let pod = cluster.ended("p").await;
    assert_eq!(phase(&pod), "Succeeded");
    let root = cluster.files(&pod).join("containers/reader/root").display().to_string();
    let log = cluster.log("p", "reader").await;
    let variables = "AILERON_SANDBOX_CONTAINER AILERON_SANDBOX_NODE AILERON_SANDBOX_ROOT AILERON_SANDBOX_TERMINATION_LOG HOME HOSTNAME PATH PWD TMPDIR ";
    assert_eq!(
        log,
        format!("from writer\ndev\nv\n{root}\n{root}\n{variables}\n"),
        "nothing of this process's environment"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_are_at_their_mount_paths_if_the_system_has_namespaces() {
    let cluster = Cluster::start().await;
    let script = "echo at root > data/x; cat /aileron-test-data/x || exit 42; cat /etc/aileron-test/deep/y; \
                  ls /etc/passwd; ls -d /usr/bin; pwd; touch $AILERON_SANDBOX_ROOT/seen";
    let mut main = sh("main", &script.replace("> data/x", "> aileron-test-data/x"));
    main["volumeMounts"] = json!([
        {"name": "v", "mountPath": "/aileron-test-data"},
        {"name": "w", "mountPath": "/etc/aileron-test/deep"},
        {"name": "v", "mountPath": "/usr"},
    ]);
    let init = {
        let mut init = sh("init", "echo deep > w/y");
        init["volumeMounts"] = json!([{"name": "w", "mountPath": "/w"}]);
        init
    };
    let volumes = json!([{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]);
    let spec = json!({"restartPolicy": "Never", "volumes": volumes, "initContainers": [init], "containers": [main]});
    cluster.create("p", spec).await;
    let pod = cluster.ended("p").await;
    assert!(!std::path::Path::new("/aileron-test-data").exists(), "the mount must not be visible on the host");
    assert!(!std::path::Path::new("/etc/aileron-test").exists(), "the mount must not be visible on the host");
    if status_of(&pod, "main")["state"]["terminated"]["exitCode"] == 42 {
        println!("there are no mount namespaces here");
        return;
    }
    let root = cluster.files(&pod).join("containers/main/root");
    let expected = format!("at root\ndeep\n/etc/passwd\n/usr/bin\n{}\n", root.display());
    assert_eq!(cluster.log("p", "main").await, expected);
    assert!(root.join("seen").exists(), "the directory of the node is the same inside and outside of the namespace");
    cluster.pods().delete("p", &DeleteParams::default()).await.unwrap();
    cluster.until_gone("p").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_container_is_restarted_with_delays() {
    let cluster = Cluster::start().await;
    let mut main = sh("main", "echo try >> v/tries; echo $(wc -l < v/tries); [ $(wc -l < v/tries) -ge 4 ]");
    main["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    let volumes = json!([{"name": "v", "emptyDir": {}}]);
    cluster.create("p", json!({"restartPolicy": "OnFailure", "volumes": volumes, "containers": [main]})).await;
    let pod = cluster.until("p", |pod| waits_for(pod, "main", "CrashLoopBackOff")).await;
    assert_eq!(phase(&pod), "Running");
    let message = status_of(&pod, "main")["state"]["waiting"]["message"].as_str().unwrap().to_owned();
    let uid = pod.uid().unwrap();
    assert_eq!(message, format!("back-off 100ms restarting failed container=main pod=p_default({uid})"));
    let pod = cluster.ended("p").await;
    assert_eq!(phase(&pod), "Succeeded");
    let status = status_of(&pod, "main");
    assert_eq!(status["restartCount"], 3);
    assert_eq!(status["lastState"]["terminated"]["exitCode"], 1);
    assert_eq!(cluster.log("p", "main").await, "4\n");
    let previous = LogParams { previous: true, ..LogParams::default() };
    assert_eq!(cluster.pods().logs("p", &previous).await.unwrap(), "3\n");
    let events = cluster.events("p", 5).await;
    let expected =
        format!("Warning BackOff kubelet: Back-off restarting failed container main in pod p_default({uid})");
    assert!(events.contains(&expected), "{events:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_pod_gets_a_term_signal_and_is_killed_after_the_grace_period() {
    let cluster = Cluster::start().await;
    let polite = "trap 'echo bye > v/../bye; exit 0' TERM; echo up; while :; do sleep 0.02; done";
    let deaf = "trap '' TERM; echo up; while :; do sleep 0.02; done";
    // A program that was killed has another exit code than one that handled the signal.
    for (name, script, grace, at_least) in [("polite", polite, 120, 0), ("deaf", deaf, 1, 1)] {
        cluster.create(name, json!({"restartPolicy": "Always", "terminationGracePeriodSeconds": grace, "containers": [sh("main", script)]})).await;
        cluster.logged(name, "main", "up").await;
        let begin = Instant::now();
        let killed = cluster.watch_end(name);
        cluster.pods().delete(name, &DeleteParams::default()).await.unwrap();
        let last = killed.await.unwrap();
        let took = begin.elapsed();
        assert!(took >= Duration::from_secs(at_least), "{name}: {took:?}");
        let code = status_of(&last, "main")["state"]["terminated"]["exitCode"].clone();
        assert_eq!(code, if name == "polite" { 0 } else { 137 }, "{name}");
        assert!(!cluster.files(&last).exists(), "its files are removed");
        let events = cluster.events(name, 5).await;
        assert_eq!(events[4], "Normal Killing kubelet: Stopping container main");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_does_not_fit_waits_for_free_capacity() {
    let mut options = NodeOptions::default();
    options.capacity.insert("nvidia.com/gpu".to_owned(), "1".parse().unwrap());
    let cluster = Cluster::with(options).await;
    let greedy = |script: &str| {
        let mut main = sh("main", script);
        main["resources"] = json!({"limits": {"nvidia.com/gpu": "1"}});
        json!({"restartPolicy": "Never", "containers": [main]})
    };
    cluster.create("first", greedy("while ! [ -e stop ]; do sleep 0.02; done")).await;
    let first = cluster.until("first", |pod| phase(pod) == "Running").await;
    cluster.create("second", greedy("true")).await;
    let second = cluster.until("second", |pod| !value(pod)["status"]["conditions"].is_null()).await;
    let condition = value(&second)["status"]["conditions"][0].clone();
    let message = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.";
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["reason"], &condition["message"]),
        (&json!("PodScheduled"), &json!("False"), &json!("Unschedulable"), &json!(message))
    );
    assert_eq!(cluster.events("second", 1).await, [format!("Warning FailedScheduling default-scheduler: {message}")]);
    std::fs::write(cluster.files(&first).join("containers/main/root/stop"), "").unwrap();
    assert_eq!(phase(&cluster.ended("second").await), "Succeeded");
    let never = json!({"restartPolicy": "Never", "nodeSelector": {"a": "b"}, "containers": [sh("main", "true")]});
    cluster.create("third", never).await;
    let third = cluster.until("third", |pod| !value(pod)["status"]["conditions"].is_null()).await;
    let message = value(&third)["status"]["conditions"][0]["message"].clone();
    assert!(message.as_str().unwrap().contains("didn't match Pod's node affinity/selector"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_program_is_a_start_error() {
    let cluster = Cluster::start().await;
    cluster.create("p", json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "host", "command": ["no-such-program"]}]})).await;
    let pod = cluster.ended("p").await;
    assert_eq!(phase(&pod), "Failed");
    let terminated = status_of(&pod, "main")["state"]["terminated"].clone();
    assert_eq!((&terminated["exitCode"], &terminated["reason"]), (&json!(128), &json!("StartError")));
    let message = terminated["message"].as_str().unwrap();
    assert!(message.ends_with("exec: \"no-such-program\": executable file not found in $PATH"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_can_be_followed() {
    let cluster = Cluster::start().await;
    cluster.create("p", json!({"restartPolicy": "Never", "containers": [sh("main", "for i in 1 2 3; do echo $i; sleep 0.1; done")]})).await;
    cluster.until("p", |pod| value(pod)["spec"]["nodeName"] == "sandbox").await;
    let params = LogParams { follow: true, ..LogParams::default() };
    let lines: Vec<String> =
        cluster.pods().log_stream("p", &params).await.unwrap().lines().try_collect().await.unwrap();
    assert_eq!(lines, ["1", "2", "3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_ends_a_pod() {
    let cluster = Cluster::start().await;
    cluster
        .create(
            "p",
            json!({"restartPolicy": "Always", "activeDeadlineSeconds": 1, "containers": [sh("main", "sleep 1000")]}),
        )
        .await;
    let pod = cluster.ended("p").await;
    let status = value(&pod)["status"].clone();
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("DeadlineExceeded")));
    assert_eq!(status["message"], "Pod was active on the node longer than the specified deadline");
    assert_eq!(status_of(&pod, "main")["state"]["terminated"]["exitCode"], 143);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pull_of_a_missing_image_is_retried() {
    let cluster = Cluster::start().await;
    let mut main = sh("main", "true");
    main["image"] = "sandbox.invalid/team/app:1".into();
    cluster.create("p", json!({"restartPolicy": "Never", "containers": [main]})).await;
    let pod = cluster.until("p", |pod| waits_for(pod, "main", "ErrImagePull")).await;
    assert_eq!(phase(&pod), "Pending");
    let pod = cluster.until("p", |pod| waits_for(pod, "main", "ImagePullBackOff")).await;
    let message = status_of(&pod, "main")["state"]["waiting"]["message"].clone();
    assert!(
        message.as_str().unwrap().starts_with("Back-off pulling image \"sandbox.invalid/team/app:1\""),
        "{message}"
    );
    cluster.until("p", |pod| waits_for(pod, "main", "ErrImagePull")).await;
    cluster.pods().delete("p", &DeleteParams::default()).await.unwrap();
    cluster.until_gone("p").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_has_the_files_and_programs_of_its_image() {
    let image = tempfile::tempdir().unwrap();
    std::fs::create_dir(image.path().join("bin")).unwrap();
    std::fs::write(image.path().join("data.txt"), "from the image").unwrap();
    std::fs::write(image.path().join("bin/tool"), "#!/bin/sh\ncat data.txt; echo changed > data.txt\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(image.path().join("bin/tool"), mode).unwrap();
    let options =
        NodeOptions { images: [("app:1".to_owned(), image.path().to_owned())].into(), ..NodeOptions::default() };
    let cluster = Cluster::with(options).await;
    cluster
        .create(
            "p",
            json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "app:1", "args": ["tool"]}]}),
        )
        .await;
    assert_eq!(phase(&cluster.ended("p").await), "Succeeded");
    assert_eq!(cluster.log("p", "main").await, "from the image\n");
    assert_eq!(std::fs::read_to_string(image.path().join("data.txt")).unwrap(), "from the image");
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_short_pods_end_on_a_node_for_twenty() {
    let mut options = NodeOptions::default();
    options.capacity.insert("pods".to_owned(), "20".parse().unwrap());
    let cluster = Cluster::with(options).await;
    for number in 0..50 {
        cluster
            .create(&format!("p{number}"), json!({"restartPolicy": "Never", "containers": [sh("main", "true")]}))
            .await;
    }
    for number in 0..50 {
        assert_eq!(phase(&cluster.ended(&format!("p{number}")).await), "Succeeded");
    }
}

fn waits_for(pod: &Pod, container: &str, reason: &str) -> bool {
    status_of(pod, container)["state"]["waiting"]["reason"] == reason
}
