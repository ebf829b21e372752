//! What does the driver ask of the operating system about itself?

use std::time::Duration;

use nix::sys::prctl;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, getppid};

/// CPU time of this process.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CpuTime {
    /// In user mode.
    pub user_s: f64,
    /// In the kernel.
    pub system_s: f64,
}

impl CpuTime {
    /// What this process has used up to now.
    #[must_use]
    pub fn now() -> Self {
        let usage = getrusage(UsageWho::RUSAGE_SELF).expect("a process may ask about itself");
        // Seconds of a process's life are far below 2^52 µs.
        #[allow(clippy::cast_precision_loss)]
        let seconds = |time: nix::sys::time::TimeVal| {
            time.tv_sec() as f64 + time.tv_usec() as f64 / 1_000_000.0
        };
        Self { user_s: seconds(usage.user_time()), system_s: seconds(usage.system_time()) }
    }

    /// What was used since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self { user_s: self.user_s - earlier.user_s, system_s: self.system_s - earlier.system_s }
    }
}

/// CPU time of this thread up to now.
#[must_use]
pub fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// The most memory that this process ever had resident.
#[must_use]
pub fn max_rss_bytes() -> u64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("a process may ask about itself");
    u64::try_from(usage.max_rss()).unwrap_or(0) * 1024
}

/// Lets this process open as many files as it may, and returns how many that are.
#[must_use]
pub fn raise_open_files() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return u64::MAX };
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(_) => soft,
    }
}

/// The process that started this one.
#[derive(Debug, Clone, Copy)]
pub struct Parent(Pid);

impl Parent {
    /// Who the parent is now: ask early, while it is still there.
    #[must_use]
    pub fn now() -> Self {
        Self(getppid())
    }

    /// Lets the kernel kill this process as soon as the parent dies.
    ///
    /// False if the parent is gone already, and therefore no signal will ever come.
    pub fn die_with_it(self) -> std::io::Result<bool> {
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        Ok(getppid() == self.0)
    }
}
