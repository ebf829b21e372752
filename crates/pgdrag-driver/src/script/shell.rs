//! How does a script run a program of this machine?
//!
//! The program is in a process group of its own, which is killed when the client is dropped before
//! the program has ended: nothing outlives the run.

use std::os::fd::AsFd;
use std::process::Stdio;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

/// As much of a program's output as pgbench looks at.
const OUTPUT_BYTES_MAX: u64 = 256;

/// Runs a command to its end; what it writes goes to standard error.
pub(super) async fn run(text: &str) -> Result<(), String> {
    // Standard output is for the driver's own lines.
    let errors = std::io::stderr().as_fd().try_clone_to_owned();
    let errors = errors.map_err(|error| format!("could not launch shell command: {error}"))?;
    let mut group = Group::start(text, Stdio::from(errors))?;
    let status = group.child.wait().await;
    group.is_over = true;
    match status {
        Ok(status) if status.success() => Ok(()),
        _ => Err("could not launch shell command".into()),
    }
}

/// Runs a command to its end, and returns the first line that it wrote.
pub(super) async fn first_line(text: &str) -> Result<String, String> {
    let mut group = Group::start(text, Stdio::piped())?;
    let output = group.child.stdout.take().expect("it is piped");
    let mut bytes = Vec::new();
    // What it writes beyond this it cannot get rid of, and it ends by SIGPIPE.
    let read = output.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes).await;
    let ended = group.child.wait().await;
    group.is_over = true;
    match (read, ended) {
        (Ok(count), Ok(_)) if count > 0 => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        _ => Err("could not read result of shell command".into()),
    }
}

/// A shell and what it started.
struct Group {
    child: Child,
    is_over: bool,
}

impl Group {
    fn start(text: &str, output: Stdio) -> Result<Self, String> {
        let mut command = Command::new("sh");
        command.args(["-c", text]).stdin(Stdio::null()).stdout(output).process_group(0);
        let child = command.spawn();
        let child = child.map_err(|error| format!("could not launch shell command: {error}"))?;
        Ok(Self { child, is_over: false })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Once it was waited for, the number could be another group's.
        let id = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(id) = id.filter(|_| !self.is_over) {
            let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
            // The runtime waits for it.
            let _ = self.child.start_kill();
        }
    }
}
