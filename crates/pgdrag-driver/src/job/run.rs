//! What is the driver told of a run: how long, with how many clients, and when transactions arrive?

use serde::Deserialize;

use super::{check_at_least_one, check_duration, check_not_negative};

/// Arrivals that may wait: 80 MB of them.
const WAITING_MAX: u32 = 10_000_000;

/// How to put load on the server.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunJob {
    /// Number of clients, one connection each.
    pub connections: u32,
    /// Whether each client connects anew for each transaction.
    pub reconnect: bool,
    /// Worker threads.
    pub threads: u32,
    /// Load before the window, which is not counted.
    pub warm_up_s: f64,
    /// Whether the caller says when the window opens, after the warm-up.
    pub handshake: bool,
    /// Length of the window.
    pub duration_s: f64,
    /// Each client runs so many transactions, and the window ends with the last; null: no limit.
    pub transactions: Option<u64>,
    /// With fewer commits than this at the end of `duration_s`, the window goes on.
    pub min_commits: u64,
    /// The window never goes on beyond this.
    pub budget_s: f64,
    /// Length of a sample.
    pub interval_s: f64,
    /// How long to wait for cancelled work before its sockets are closed.
    pub grace_s: f64,
    /// When transactions arrive.
    pub pacing: Pacing,
    /// How many clients work at a time, and the rate; empty: all of them, at the pacing's rate.
    pub steps: Vec<StepJob>,
    /// An arrival that is later than this is skipped, a commit that took longer is counted.
    pub latency_limit_us: Option<u64>,
    /// Which part of this load is this driver's; `None`: all of it.
    #[serde(default)]
    pub share: Option<Share>,
}

/// Of several drivers that put one load on the server, driver number `index` has every client whose number
/// leaves this remainder when it is divided by `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// The driver's number, from 0.
    pub index: u32,
    /// How many drivers there are.
    pub of: u32,
}

impl Share {
    const ALL: Self = Self { index: 0, of: 1 };

    fn check(self, run: &RunJob) -> Result<(), String> {
        check_at_least_one("run.share.of", self.of)?;
        if self.of > run.connections {
            return Err(format!(
                r#"key "run.share.of" must be at most run.connections ({}), not {}"#,
                run.connections, self.of
            ));
        }
        if self.index >= self.of {
            return Err(format!(
                r#"key "run.share.index" must be below run.share.of ({}), not {}"#,
                self.of, self.index
            ));
        }
        // Nobody but the caller knows what all drivers have committed, and when all are warm.
        if run.min_commits > 0 {
            return Err(r#"keys "run.share" and "run.min_commits" cannot both be given"#.into());
        }
        if run.handshake {
            Ok(())
        } else {
            Err(r#"key "run.handshake" must be true with "run.share""#.into())
        }
    }
}

/// When transactions arrive.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Pacing {
    /// Each client begins the next one when the last has ended.
    Closed,
    /// From a schedule, whatever the server does; latency counts from there.
    Open {
        /// Arrivals per second.
        rate_per_s: f64,
        /// The distribution of their gaps.
        arrivals: Arrivals,
        /// Of more arrivals that wait the oldest is dropped.
        backlog_limit: u32,
    },
    /// As BenchBase does: equal gaps, one queue; latency counts from when a client took it.
    Benchbase {
        /// Arrivals per second.
        rate_per_s: f64,
        /// What finds this many waiting is dropped.
        queue_limit: u32,
    },
}

/// The distribution of the gaps between arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Exponential gaps.
    Poisson,
    /// Equal gaps.
    Uniform,
}

/// What holds from a moment of the window on.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepJob {
    /// Seconds after the opening; what holds at 0 holds in the warm-up as well.
    pub at_s: f64,
    /// Clients that work.
    pub sessions: u32,
    /// Arrivals per second; null: the pacing's.
    pub rate_per_s: Option<f64>,
}

impl RunJob {
    /// This driver's part of the load.
    #[must_use]
    pub fn share(&self) -> Share {
        self.share.unwrap_or(Share::ALL)
    }

    /// The numbers of this driver's clients, ascending.
    pub fn own_clients(&self) -> impl Iterator<Item = u32> {
        let Share { index, of } = self.share();
        (index..self.connections).step_by(of as usize)
    }

    /// How many of this driver's clients have a number below this one.
    #[must_use]
    pub fn own_clients_below(&self, number: u32) -> u32 {
        let Share { index, of } = self.share();
        number.min(self.connections).saturating_sub(index).div_ceil(of)
    }

    /// How many clients this driver has.
    #[must_use]
    pub fn own_connections(&self) -> u32 {
        self.own_clients_below(self.connections)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        check_at_least_one("run.connections", self.connections)?;
        check_at_least_one("run.threads", self.threads)?;
        check_duration("run.duration_s", self.duration_s)?;
        check_duration("run.budget_s", self.budget_s)?;
        check_duration("run.interval_s", self.interval_s)?;
        check_not_negative("run.warm_up_s", self.warm_up_s)?;
        check_not_negative("run.grace_s", self.grace_s)?;
        if self.budget_s < self.duration_s {
            return Err(format!(
                r#"key "run.budget_s" must be at least run.duration_s ({}), not {}"#,
                self.duration_s, self.budget_s
            ));
        }
        if self.interval_s < 0.01 {
            return Err(format!(
                r#"key "run.interval_s" must be at least 0.01, not {}"#,
                self.interval_s
            ));
        }
        if self.latency_limit_us == Some(0) {
            return Err(r#"key "run.latency_limit_us" must be at least 1 or null, not 0"#.into());
        }
        self.pacing.check()?;
        self.check_transactions()?;
        self.check_steps()?;
        self.share.map_or(Ok(()), |share| share.check(self))
    }

    fn check_transactions(&self) -> Result<(), String> {
        let Some(transactions) = self.transactions else { return Ok(()) };
        if transactions == 0 {
            return Err(r#"key "run.transactions" must be at least 1 or null, not 0"#.into());
        }
        // Either would let a client wait that has some left.
        for (key, is_given) in
            [("min_commits", self.min_commits > 0), ("steps", !self.steps.is_empty())]
        {
            if is_given {
                return Err(format!(
                    r#"keys "run.transactions" and "run.{key}" cannot both be given"#
                ));
            }
        }
        Ok(())
    }

    fn check_steps(&self) -> Result<(), String> {
        let mut earliest_s = 0.0;
        for (index, step) in self.steps.iter().enumerate() {
            let key = |name: &str| format!("run.steps[{index}].{name}");
            check_not_negative(&key("at_s"), step.at_s)?;
            if (index == 0 && step.at_s != 0.0) || (index > 0 && step.at_s <= earliest_s) {
                let rule = if index == 0 { "be 0" } else { "be above the one before" };
                return Err(format!(r#"key "{}" must {rule}, not {}"#, key("at_s"), step.at_s));
            }
            earliest_s = step.at_s;
            if step.sessions > self.connections {
                return Err(format!(
                    r#"key "{}" must be at most run.connections ({}), not {}"#,
                    key("sessions"),
                    self.connections,
                    step.sessions
                ));
            }
            match step.rate_per_s {
                Some(rate) if self.pacing == Pacing::Closed => {
                    return Err(format!(
                        r#"key "{}" must be null in a closed loop, not {rate}"#,
                        key("rate_per_s")
                    ));
                }
                // Nothing arrives during a pause.
                Some(0.0) | None => {}
                Some(rate) => check_rate(&key("rate_per_s"), rate)?,
            }
        }
        Ok(())
    }
}

impl Pacing {
    fn check(self) -> Result<(), String> {
        let (rate, key, limit) = match self {
            Self::Closed => return Ok(()),
            Self::Open { rate_per_s, backlog_limit, .. } => {
                (rate_per_s, "backlog_limit", backlog_limit)
            }
            Self::Benchbase { rate_per_s, queue_limit } => (rate_per_s, "queue_limit", queue_limit),
        };
        check_rate("run.pacing.rate_per_s", rate)?;
        if (1..=WAITING_MAX).contains(&limit) {
            Ok(())
        } else {
            Err(format!(
                r#"key "run.pacing.{key}" must be between 1 and {WAITING_MAX}, not {limit}"#
            ))
        }
    }
}

fn check_rate(key: &str, rate: f64) -> Result<(), String> {
    if (1e-6..=1e6).contains(&rate) {
        Ok(())
    } else {
        Err(format!(r#"key "{key}" must be between 0.000001 and 1000000, not {rate}"#))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn job(connections: u32, share: Option<(u32, u32)>) -> RunJob {
        serde_json::from_value(json!({
            "connections": connections, "threads": 1, "reconnect": false, "warm_up_s": 0.0, "handshake": true,
            "duration_s": 1.0, "min_commits": 0, "budget_s": 1.0, "interval_s": 1.0, "grace_s": 1.0,
            "pacing": {"kind": "closed"}, "steps": [], "latency_limit_us": null,
            "share": share.map(|(index, of)| json!({"index": index, "of": of})),
        }))
        .expect("a sound job")
    }

    #[test]
    fn a_share_is_one_of_those_that_there_are() {
        // (index, of, what is wrong with 4 connections)
        for (index, of, wrong) in [
            (0, 1, None),
            (3, 4, None),
            (0, 0, Some("run.share.of\" must be at least 1")),
            (2, 2, Some("run.share.index\" must be below run.share.of (2), not 2")),
            (0, 5, Some("run.share.of\" must be at most run.connections (4), not 5")),
        ] {
            let found = job(4, Some((index, of))).check();
            match wrong {
                None => assert_eq!(found, Ok(())),
                Some(wrong) => assert!(found.is_err_and(|error| error.contains(wrong)), "{wrong}"),
            }
        }
        let waits = RunJob { min_commits: 1, ..job(4, Some((0, 2))) };
        assert!(waits.check().is_err_and(|error| error.contains("run.min_commits")));
        let hurries = RunJob { handshake: false, ..job(4, Some((0, 2))) };
        assert!(hurries.check().is_err_and(|error| error.contains("run.handshake")));
    }

    proptest! {
        #[test]
        fn every_client_is_one_drivers(connections in 1_u32..200, of in 1_u32..20, number in 0_u32..250) {
            prop_assume!(of <= connections);
            let jobs: Vec<_> = (0..of).map(|index| job(connections, Some((index, of)))).collect();
            let mut all: Vec<_> = jobs.iter().flat_map(RunJob::own_clients).collect();
            all.sort_unstable();
            prop_assert_eq!(all, job(connections, None).own_clients().collect::<Vec<_>>());
            for job in jobs {
                let below = job.own_clients().filter(|client| *client < number).count();
                prop_assert_eq!(job.own_clients_below(number) as usize, below);
            }
        }
    }
}
