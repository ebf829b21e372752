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

/// How long this thread has waited for a processor up to now, ready to run; `None` where the kernel does not say.
#[must_use]
pub fn thread_wait() -> Option<Duration> {
    waited(&std::fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

/// The wait in the text of a `schedstat`: nanoseconds on a processor, in its queue, and how often it got one, which is
/// 0 only of a kernel that does not count.
fn waited(schedstat: &str) -> Option<Duration> {
    let numbers: Result<Vec<u64>, _> = schedstat.split_ascii_whitespace().map(str::parse).collect();
    match numbers.ok()?[..] {
        [_, wait_ns, times] if times > 0 => Some(Duration::from_nanos(wait_ns)),
        _ => None,
    }
}

/// How many processors this process may use.
#[must_use]
pub fn processors() -> u32 {
    std::thread::available_parallelism()
        .map_or(1, |found| u32::try_from(found.get()).unwrap_or(u32::MAX))
}

/// The most memory that this program ever had resident; 0 where `/proc` does not say.
///
/// Not by `getrusage`: its maximum includes what the process was before it became this program, a
/// copy of the one that started it.
#[must_use]
pub fn max_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    high_water_bytes(&status).unwrap_or(0)
}

/// The high-water mark of the resident set in the text of a `/proc/PID/status`.
fn high_water_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?;
    kilobytes.checked_mul(1024)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_water_mark_is_read_in_bytes() {
        let status = "Name:\tx\nVmPeak:\t  999 kB\nVmHWM:\t  4096 kB\nVmRSS:\t 10 kB\n";
        assert_eq!(high_water_bytes(status), Some(4096 * 1024));
        assert_eq!(high_water_bytes("Name:\tx\n"), None);
    }

    #[test]
    fn schedstat_gives_the_wait_for_a_processor_if_the_kernel_counts_it() {
        assert_eq!(waited("63836450 494068749 664\n"), Some(Duration::from_nanos(494_068_749)));
        assert_eq!(waited("0 0 0\n"), None);
        assert_eq!(waited("1 2\n"), None);
        assert_eq!(waited("a b c\n"), None);
    }

    #[test]
    fn memory_that_was_used_counts_after_it_was_freed() {
        let before = max_rss_bytes();
        assert!(before > 0, "Linux tells it");
        let pages = vec![1_u8; 64 << 20];
        assert_eq!(pages.iter().step_by(4096).map(|&byte| u64::from(byte)).sum::<u64>(), 16384);
        drop(pages);
        assert!(max_rss_bytes() >= 64 << 20);
    }
}
