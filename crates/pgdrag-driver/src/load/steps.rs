//! How many clients work at a time, and at which rate transactions arrive?
//!
//! Both are piecewise constant. A step's time counts from the opening of the window; the first step
//! holds in the warm-up as well, so nothing changes before `opening + first change`.

use std::time::Duration;

use crate::io::clock::Moment;
use crate::job::{Pacing, RunJob};

/// What holds from one moment on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Counted from the opening of the window.
    pub at: Duration,
    /// Clients below this number work.
    pub sessions: u32,
    /// How many of them are this driver's.
    pub own_sessions: u32,
    /// Arrivals per second for this driver's clients; not used in a closed loop.
    pub rate_per_s: f64,
}

/// The steps of a run, in the order of time; at least one, and the first at 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Steps(Vec<Step>);

impl Steps {
    /// The job's steps; without any, all connections at the pacing's rate.
    #[must_use]
    pub fn new(job: &RunJob) -> Self {
        let rate_per_s = match job.pacing {
            Pacing::Closed => 0.0,
            Pacing::Open { rate_per_s, .. } | Pacing::Benchbase { rate_per_s, .. } => rate_per_s,
        };
        let step = |at_s, sessions, rate_per_s| {
            let own_sessions = job.own_clients_below(sessions);
            // Nobody works: what arrives waits for those who will.
            let (own, all) = match sessions {
                0 => (job.own_connections(), job.connections),
                _ => (own_sessions, sessions),
            };
            let rate_per_s = rate_per_s * f64::from(own) / f64::from(all);
            Step { at: Duration::from_secs_f64(at_s), sessions, own_sessions, rate_per_s }
        };
        let steps = job.steps.iter();
        let mut steps: Vec<_> = steps
            .map(|one| step(one.at_s, one.sessions, one.rate_per_s.unwrap_or(rate_per_s)))
            .collect();
        if steps.is_empty() {
            steps.push(step(0.0, job.connections, rate_per_s));
        }
        Self(steps)
    }

    /// Step number `index`, from 0.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&Step> {
        self.0.get(index)
    }

    /// The step that holds at `moment`.
    #[must_use]
    pub fn at(&self, moment: Moment, opening: Option<Moment>) -> &Step {
        let begun = |step: &&Step| opening.is_some_and(|opening| opening + step.at <= moment);
        self.0.iter().rev().find(begun).unwrap_or(&self.0[0])
    }

    /// When the next step after `moment` begins, if that is known and there is one.
    #[must_use]
    pub fn next_change(&self, moment: Moment, opening: Option<Moment>) -> Option<Moment> {
        let opening = opening?;
        self.0[1..].iter().map(|step| opening + step.at).find(|begin| *begin > moment)
    }

    /// Up to when what holds `now` is certain: before the opening nobody knows when steps come.
    #[must_use]
    pub fn certain_until(&self, now: Moment, opening: Option<Moment>) -> Moment {
        match (opening, self.0.get(1)) {
            (None, Some(second)) => now + second.at,
            _ => Moment::NEVER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn steps() -> Steps {
        let step =
            |at, sessions| Step { at: S(at), sessions, own_sessions: sessions, rate_per_s: 1.0 };
        Steps(vec![step(0, 5), step(60, 8), step(120, 3)])
    }

    #[test]
    fn the_first_step_holds_in_the_warm_up_and_the_others_after_the_opening() {
        let opening = Moment::default() + S(100);
        // (seconds, sessions, next change in seconds)
        for (seconds, sessions, next) in
            [(0, 5, Some(160)), (100, 5, Some(160)), (160, 8, Some(220)), (220, 3, None)]
        {
            let now = Moment::default() + S(seconds);
            assert_eq!(steps().at(now, Some(opening)).sessions, sessions, "{seconds}");
            let next = next.map(|next| Moment::default() + S(next));
            assert_eq!(steps().next_change(now, Some(opening)), next, "{seconds}");
        }
    }

    #[test]
    fn before_the_opening_is_known_nothing_changes_sooner_than_the_second_step() {
        let now = Moment::default() + S(7);
        assert_eq!(steps().at(now + S(1000), None).sessions, 5);
        assert_eq!(steps().next_change(now, None), None);
        assert_eq!(steps().certain_until(now, None), now + S(60));
        assert_eq!(steps().certain_until(now, Some(now)), Moment::NEVER);
    }
}
