//! The executable: parse, hand over, choose the exit code. 0 done, 1 failed, 2 wrong usage or a wrong
//! configuration.

use std::process::ExitCode;

use fis::cli::{Cli, failure};

fn main() -> ExitCode {
    // Before anything can speak TLS: two providers may be compiled in by features, one is chosen here.
    let _ = rustls::crypto::ring::default_provider().install_default();
    leave_quietly_when_nobody_reads();
    let cli = Cli::read();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("fis: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let code = match runtime.block_on(cli.run()) {
        Ok(code) => code,
        Err(error) => failure(&error),
    };
    // Whatever still runs in the background is of no interest any more.
    runtime.shutdown_background();
    code
}

/// `fis dlq list | head` closes our output early. `println!` panics then; a reader who has seen enough is no fault.
fn leave_quietly_when_nobody_reads() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.to_string().contains("failed printing to stdout") {
            std::process::exit(0);
        }
        usual(panic);
    }));
}
