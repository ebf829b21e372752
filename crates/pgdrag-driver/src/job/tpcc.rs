//! What is the driver told of TPC-C?

use serde::Deserialize;

use super::{Pacing, check_at_least_one};

/// Ten times the waits of the specification: minutes for each transaction.
const WAIT_SCALE_MAX: f64 = 10.0;

/// The parameters of TPC-C.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TpccJob {
    /// The scale: number of warehouses, at least 1.
    pub warehouses: u32,
    /// `read committed`, `repeatable read` or `serializable`.
    pub isolation: Isolation,
    /// How often each transaction is drawn.
    pub mix: Mix,
    /// Attempts in all at a transaction that fails with 40001 or 40P01, at least 1.
    pub max_tries: u32,
    /// Whether those that fail with 40P01 are among them; `BenchBase` retries 40001 alone.
    #[serde(default = "yes")]
    pub retry_deadlocks: bool,
    /// How statements are sent.
    pub statements: StatementMode,
    /// Where terminals stand.
    pub terminals: Terminals,
    /// Keying and think times of the specification, times this; 0: none.
    pub wait_scale: f64,
}

fn yes() -> bool {
    true
}

/// How a workload's statements are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatementMode {
    /// As text with the values in it, one round trip each.
    Simple,
    /// Parsed anew for each execution, one round trip each.
    Extended,
    /// Prepared, one round trip each.
    Prepared,
    /// Prepared; those that do not need each other's answers share a round trip.
    Pipelined,
}

/// Where TPC-C's terminals stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Terminals {
    /// Spread over the warehouses, each with a range of districts.
    Benchbase,
    /// Ten a warehouse.
    Specification,
}

/// A transaction isolation level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Isolation {
    /// Each statement sees what was committed before it.
    #[serde(rename = "read committed")]
    ReadCommitted,
    /// Each transaction sees what was committed before it.
    #[serde(rename = "repeatable read")]
    RepeatableRead,
    /// As if transactions ran one after the other.
    #[serde(rename = "serializable")]
    Serializable,
}

impl Isolation {
    /// The level as SQL writes it.
    #[must_use]
    pub fn sql(self) -> &'static str {
        match self {
            Self::ReadCommitted => "READ COMMITTED",
            Self::RepeatableRead => "REPEATABLE READ",
            Self::Serializable => "SERIALIZABLE",
        }
    }
}

/// The weights of TPC-C's five transactions; only their proportions matter.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Weight of New-Order.
    pub new_order: f64,
    /// Weight of Payment.
    pub payment: f64,
    /// Weight of Order-Status.
    pub order_status: f64,
    /// Weight of Delivery.
    pub delivery: f64,
    /// Weight of Stock-Level.
    pub stock_level: f64,
}

impl Mix {
    /// The weights in the order of `Tpcc::TRANSACTIONS`.
    #[must_use]
    pub fn weights(&self) -> [f64; 5] {
        [self.new_order, self.payment, self.order_status, self.delivery, self.stock_level]
    }
}

impl TpccJob {
    /// A terminal that keys and thinks begins a transaction when it has done so, not when a schedule says.
    pub(super) fn check_pacing(&self, pacing: Pacing) -> Result<(), String> {
        if self.wait_scale == 0.0 || pacing == Pacing::Closed {
            Ok(())
        } else {
            Err(format!(
                r#"key "workload.wait_scale" must be 0 unless run.pacing is closed, not {}"#,
                self.wait_scale
            ))
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        check_at_least_one("workload.warehouses", self.warehouses)?;
        check_at_least_one("workload.max_tries", self.max_tries)?;
        if !(0.0..=WAIT_SCALE_MAX).contains(&self.wait_scale) {
            return Err(format!(
                r#"key "workload.wait_scale" must be between 0 and {WAIT_SCALE_MAX}, not {}"#,
                self.wait_scale
            ));
        }
        let weights = self.mix.weights();
        let is_sound = weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0);
        if is_sound && weights.iter().sum::<f64>() > 0.0 {
            Ok(())
        } else {
            Err(format!(
                r#"key "workload.mix" must hold weights of 0 or more with a sum above 0, not {weights:?}"#
            ))
        }
    }
}
