//! Other programs: a prepared command enters, its success, its output or a [`Stop`] with its exit code leaves.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use crate::say::{Done, OrDie, Stop};

/// Tells whether a command that nobody listens to succeeds.
pub fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The output of a command, without the line end; `None` where it fails.
pub fn output_of(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// A command that has to succeed; its exit code becomes ours where it does not.
pub fn must(command: &mut Command) -> Done {
    let status = command.status().or_die(cannot_run(command))?;
    judge(status)
}

pub fn judge(status: ExitStatus) -> Done {
    if status.success() { Ok(()) } else { Err(Stop::Told(exit_code(status))) }
}

/// The code a shell would give: 128 and the signal's number for a program that a signal ended.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Becomes the other program. Whoever waits for `./dev` then waits for that program, and signals reach it directly.
pub fn become_program(mut command: Command) -> Done {
    let error = command.exec();
    Err(error).or_die(cannot_run(&command))
}

pub fn cannot_run(command: &Command) -> String {
    format!("cannot run {}", command.get_program().display())
}

/// A program on the PATH.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_program(file))
}

pub fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_a_signal_ended_gives_the_code_of_a_shell() {
        let status = |script: &str| Command::new("sh").args(["-c", script]).status().unwrap();
        // Whoever starts the tests in the background has them ignore SIGINT; nobody ignores this one.
        assert_eq!(exit_code(status("kill -KILL $$")), 137);
        assert_eq!(exit_code(status("exit 101")), 101);
    }

    #[test]
    fn a_folder_is_no_program() {
        assert!(!is_program(Path::new("/usr")));
        assert!(find("sh").is_some() && find("no-such-program-here").is_none());
    }
}
