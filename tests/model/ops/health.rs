//! The health checks of image and compose file, asked of a running fis, and the port that all of them share.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fis::platform::config::Config;

use super::{DOCKERFILE, block, directive, environment, service};

fn port_of(address: &str) -> &str {
    address.rsplit(':').next().unwrap()
}

/// The script that `bash -c` gets from the image.
fn image_check() -> String {
    let check = &directive(DOCKERFILE, "HEALTHCHECK ")[0];
    let words: Vec<String> = serde_json::from_str(check.split_once("CMD ").unwrap().1).unwrap();
    assert_eq!(words[..2], ["bash", "-c"]);
    words[2].clone()
}

/// The same from the compose file, where a dollar is written twice.
fn compose_check() -> String {
    let words = block(&block(&service("fis"), "healthcheck"), "test");
    let words: Vec<&str> = words.iter().map(|line| line.trim().trim_start_matches("- ")).collect();
    assert_eq!(words[..3], ["CMD", "bash", "-c"]);
    words[3].replace("$$", "$")
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_running_fis_answers_the_health_checks() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fis"));
    // Its servers are away, which is no reason to be dead, but one not to be ready.
    command
        .arg("run")
        .env_clear()
        .current_dir(std::env::temp_dir())
        .env("FIS_HTTP_ADDR", format!("127.0.0.1:{port}"))
        .env("FIS_AMQP_URL", "amqp://fis_service@127.0.0.1:1/%2Ffis")
        .env("FIS_REDIS_URL", "redis://127.0.0.1:1/1")
        .env("FIS_DATABASE_URL", "postgres://fis@127.0.0.1:1/fis")
        .stderr(Stdio::null());
    let _running = Running(command.spawn().unwrap());
    let deadline = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < deadline, "fis does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    let passes = |script: String| {
        let script = script.replace("/8080", &format!("/{port}"));
        Command::new("bash").args(["-c", &script]).status().unwrap().success()
    };
    assert!(image_check().contains("/healthz") && passes(image_check()));
    assert!(compose_check().contains("/readyz") && !passes(compose_check()));
    assert!(passes(compose_check().replace("/readyz", "/healthz")), "only the path makes the difference");
}

#[test]
fn the_ports_of_image_compose_and_health_checks_are_one() {
    let address = environment("fis").into_iter().find(|(name, _)| name == "FIS_HTTP_ADDR").unwrap().1;
    let port = port_of(&address).to_owned();
    assert!(address.starts_with("0.0.0.0:"), "nobody outside the container could ask");
    assert_eq!(directive(DOCKERFILE, "ENV "), [format!("FIS_HTTP_ADDR={address}")]);
    assert_eq!(directive(DOCKERFILE, "EXPOSE ").join(","), port);
    assert_eq!(block(&service("fis"), "ports")[0].trim(), format!("- \"127.0.0.1:{port}:{port}\""));
    for check in [image_check(), compose_check()] {
        assert!(check.contains(&format!("/dev/tcp/127.0.0.1/{port}")), "{check}");
    }
    assert_eq!(port_of(&Config::default().http.addr), port);
}
