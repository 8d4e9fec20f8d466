//! Simulated operators with the in-memory API server: outcomes, restarts, faults and deletions.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::{Duration, Instant};

use aileron_apiserver::{ApiServer, Fault, Match, Options};
use aileron_sandbox::{OperatorError, Operators, Rules, install_definitions};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

/// Time limit of a wait. Every wait is shorter, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

const THINGS: &str = "
group: example.org
version: v1
kind: Thing
plural: things
columns: [{name: State, path: .status.state}]
stages:
  - {name: started, when: {.status.state: ''}, after: 10ms, status: {state: Started, uid: '{uid}'}}
  - {name: paused, when: {.status.state: Started}, outcome: pause, after: 10ms, status: {state: Paused}}
  - {name: done, when: {.status.state: [Started, Resumed]}, outcome: [succeed, pause], after: 10ms, status: {state: Done}}
  - {name: broken, when: {.status.state: Started}, outcome: fail, after: 10ms, status: {state: Broken}}
";

struct World {
    server: ApiServer,
    operators: Option<Operators>,
}

impl World {
    async fn new() -> Self {
        let server = ApiServer::new(Options::default());
        install_definitions(&server.client(), &[rules()]).await.unwrap();
        let mut world = Self { server, operators: None };
        world.start().await;
        world
    }

    async fn start(&mut self) {
        self.operators = Some(Operators::start(self.server.client(), vec![rules()]).await.unwrap());
    }

    async fn stop(&mut self) {
        self.operators.take().unwrap().stop().await;
    }

    fn things(&self) -> Api<DynamicObject> {
        things(&self.server)
    }

    async fn create(&self, name: &str, outcome: &str) {
        let metadata = json!({"name": name, "annotations": {"simulate.aileron.dev/outcome": outcome}});
        let thing = json!({"apiVersion": "example.org/v1", "kind": "Thing", "metadata": metadata, "spec": {}});
        self.things().create(&PostParams::default(), &serde_json::from_value(thing).unwrap()).await.unwrap();
    }

    fn state(&self, name: &str) -> String {
        let thing = self.server.store().object("things.example.org", "default", name).unwrap_or_default();
        thing["status"]["state"].as_str().unwrap_or_default().to_owned()
    }

    async fn until(&self, name: &str, state: &str) {
        let begin = Instant::now();
        while self.state(name) != state {
            assert!(begin.elapsed() < PATIENCE, "{name} is {:?}, not {state:?}", self.state(name));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn rules() -> Rules {
    Rules::read(THINGS).unwrap()
}

fn things(server: &ApiServer) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: "example.org".into(),
        version: "v1".into(),
        api_version: "example.org/v1".into(),
        kind: "Thing".into(),
        plural: "things".into(),
    };
    Api::default_namespaced_with(server.client(), &resource)
}

#[tokio::test]
async fn objects_end_with_the_requested_outcome() {
    let world = World::new().await;
    for outcome in ["succeed", "fail", "hang"] {
        world.create(outcome, outcome).await;
    }
    world.until("succeed", "Done").await;
    world.until("fail", "Broken").await;
    world.until("hang", "Started").await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(world.state("hang"), "Started");
}

#[tokio::test]
async fn operators_continue_after_a_restart_and_after_writes_of_others() {
    let mut world = World::new().await;
    world.create("before", "pause").await;
    world.until("before", "Paused").await;
    world.stop().await;
    world.create("meanwhile", "succeed").await;
    let resumed = json!({"status": {"state": "Resumed"}});
    world.things().patch_status("before", &PatchParams::default(), &Patch::Merge(resumed)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(
        (world.state("before"), world.state("meanwhile")),
        ("Resumed".into(), String::new()),
        "no operator runs"
    );
    world.start().await;
    world.until("before", "Done").await;
    world.until("meanwhile", "Done").await;
}

#[tokio::test]
async fn faults_only_delay_the_stages() {
    let world = World::new().await;
    let faults = world.server.faults();
    faults.add(Fault::Times(Match::of("patch", "things/status"), 409, 3));
    faults.add(Fault::Times(Match::of("patch", "things/status"), 500, 1));
    world.create("slow", "succeed").await;
    faults.drop_watches();
    world.until("slow", "Done").await;
}

#[tokio::test]
async fn a_new_object_of_the_same_name_starts_at_the_first_stage() {
    let world = World::new().await;
    for _ in 0..10 {
        world.create("again", "succeed").await;
        world.things().delete("again", &DeleteParams::default()).await.unwrap();
    }
    world.create("again", "hang").await;
    world.until("again", "Started").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let last = world.server.store().object("things.example.org", "default", "again").unwrap();
    assert_eq!(last["status"], json!({"state": "Started", "uid": last["metadata"]["uid"]}));
}

#[tokio::test]
async fn a_kind_may_be_defined_after_the_operators_start() {
    let server = ApiServer::new(Options::default());
    let world = World { operators: Some(Operators::start(server.client(), vec![rules()]).await.unwrap()), server };
    tokio::time::sleep(Duration::from_millis(50)).await;
    install_definitions(&world.server.client(), &[rules()]).await.unwrap();
    world.create("late", "succeed").await;
    world.until("late", "Done").await;
}

#[tokio::test]
async fn every_kind_of_the_plugins_can_be_defined_and_ends() {
    let server = ApiServer::new(Options::default());
    let all = Rules::builtin();
    install_definitions(&server.client(), &all).await.unwrap();
    install_definitions(&server.client(), &all).await.unwrap();
    let _operators = Operators::start(server.client(), all.clone()).await.unwrap();
    let mut ends = Vec::new();
    for rules in &all {
        let definition = serde_json::to_value(rules.definition()).unwrap();
        let text = |path: &str| definition.pointer(path).unwrap().as_str().unwrap().to_owned();
        let (group, version) = (text("/spec/group"), text("/spec/versions/0/name"));
        let resource = ApiResource {
            api_version: format!("{group}/{version}"),
            group,
            version,
            kind: text("/spec/names/kind"),
            plural: text("/spec/names/plural"),
        };
        let spec = json!({"executor": {"instances": 1}, "replicatedJobs": [{"name": "workers", "replicas": 1}]});
        let object = DynamicObject::new("one", &resource).data(json!({ "spec": spec }));
        let api: Api<DynamicObject> = Api::default_namespaced_with(server.client(), &resource);
        api.create(&PostParams::default(), &object).await.unwrap();
        ends.push((api, resource));
    }
    for (api, resource) in ends {
        let begin = Instant::now();
        loop {
            let status = api.get("one").await.unwrap().data["status"].clone();
            let text = status.to_string();
            if ["COMPLETED", "Complete\"", "Successful\"", "\"Succeeded\"", "AllJobsCompleted"]
                .iter()
                .any(|end| text.contains(end))
            {
                break;
            }
            assert!(begin.elapsed() < PATIENCE, "{} is {status}", resource.kind);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn columns_are_shown_and_two_rule_files_for_a_kind_are_an_error() {
    let world = World::new().await;
    world.create("shown", "succeed").await;
    world.until("shown", "Done").await;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let request = http::Request::get("/apis/example.org/v1/namespaces/default/things").header("accept", accept);
    let table: Value = world.server.client().request(request.body(Vec::new()).unwrap()).await.unwrap();
    assert_eq!(table["rows"][0]["cells"].as_array().unwrap()[..2], [json!("shown"), json!("Done")]);

    let twice = Operators::start(world.server.client(), vec![rules(), rules()]).await.unwrap_err();
    assert!(matches!(&twice, OperatorError::Duplicate(kind) if kind == "things.example.org"), "{twice}");
}
