//! What does one terminal do: draw a transaction, and try it as often as it is told to?

use std::time::Duration;

use super::inputs::{Delivery, Home, NewOrder, OrderStatus, Payment, StockLevel};
use super::random::{Purpose, Stream};
use super::waits::Waits;
use super::{Scratch, Tpcc, delivery, mark, new_order, order_status, payment, stock_level};
use crate::error::Error;
use crate::io::timer::Timers;
use crate::job::{Isolation, StatementMode, Terminals, TpccJob};
use crate::session::looking::count;
use crate::session::{Connection, Protocol};
use crate::workload::{self, Ended};

/// One client: where it stands, its stream of chance, and its prepared statements.
#[derive(Debug)]
pub struct Terminal {
    home: Home,
    isolation: Isolation,
    mode: StatementMode,
    waits: Waits,
    weights: [f64; Tpcc::TRANSACTIONS.len()],
    stream: Stream,
    statements: Statements,
    scratch: Scratch,
    /// The transaction drawn last, and its inputs.
    drawn: Option<(usize, Input)>,
}

/// The inputs of the transaction drawn last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    NewOrder(NewOrder),
    Payment(Payment),
    OrderStatus(OrderStatus),
    Delivery(Delivery),
    StockLevel(StockLevel),
}

#[derive(Debug)]
struct Statements {
    new_order: new_order::Statements,
    payment: payment::Statements,
    order_status: order_status::Statements,
    delivery: delivery::Statements,
    stock_level: stock_level::Statements,
}

impl Statements {
    /// Sets the session's isolation level and protocol, and prepares every statement.
    async fn prepare(
        isolation: Isolation,
        mode: StatementMode,
        conn: &mut Connection,
    ) -> Result<Self, Error> {
        conn.set_protocol(match mode {
            StatementMode::Simple => Protocol::Simple,
            StatementMode::Extended => Protocol::Extended,
            StatementMode::Prepared | StatementMode::Pipelined => Protocol::Prepared,
        })
        .await?;
        let level = isolation.sql();
        conn.simple(&format!("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {level}"))
            .await?;
        Ok(Self {
            new_order: new_order::Statements::prepare(conn).await?,
            payment: payment::Statements::prepare(conn).await?,
            order_status: order_status::Statements::prepare(conn).await?,
            delivery: delivery::Statements::prepare(conn).await?,
            stock_level: stock_level::Statements::prepare(conn).await?,
        })
    }
}

impl Statements {
    /// One round trip a statement.
    async fn run(
        &self,
        input: &Input,
        conn: &mut Connection,
        scratch: &mut Scratch,
    ) -> Result<Ended, Error> {
        match input {
            Input::NewOrder(input) => self.new_order.run(input, conn, scratch).await,
            Input::Payment(input) => self.payment.run(input, conn, scratch).await,
            Input::OrderStatus(input) => self.order_status.run(input, conn, scratch).await,
            Input::Delivery(input) => self.delivery.run(input, conn, scratch).await,
            Input::StockLevel(input) => self.stock_level.run(input, conn, scratch).await,
        }
    }

    /// One round trip for statements that do not need each other's answers.
    async fn fly(
        &self,
        input: &Input,
        conn: &mut Connection,
        scratch: &mut Scratch,
    ) -> Result<Ended, Error> {
        match input {
            Input::NewOrder(input) => self.new_order.fly(input, conn, scratch).await,
            Input::Payment(input) => self.payment.fly(input, conn, scratch).await,
            Input::OrderStatus(input) => self.order_status.fly(input, conn, scratch).await,
            Input::Delivery(input) => self.delivery.fly(input, conn, scratch).await,
            Input::StockLevel(input) => self.stock_level.fly(input, conn, scratch).await,
        }
    }
}

impl Terminal {
    pub(super) async fn open(
        job: &TpccJob,
        seed: u64,
        (client, clients): (u32, u32),
        conn: &mut Connection,
    ) -> Result<Self, Error> {
        Ok(Self {
            home: match job.terminals {
                Terminals::Benchbase => Home::as_in_benchbase(client, clients, job.warehouses),
                Terminals::Specification => Home::as_specified(client, job.warehouses),
            },
            isolation: job.isolation,
            mode: job.statements,
            waits: Waits::new(job.wait_scale, seed, client),
            weights: job.mix.weights(),
            stream: Stream::new(seed, Purpose::Terminal, u64::from(client)),
            statements: Statements::prepare(job.isolation, job.statements, conn).await?,
            scratch: Scratch::default(),
            drawn: None,
        })
    }
}

impl workload::Terminal for Terminal {
    fn draw(&mut self) -> usize {
        let transaction = pick(&self.weights, self.stream.fraction());
        let input = Input::draw(transaction, &self.home, &mut self.stream);
        self.drawn = Some((transaction, input));
        transaction
    }

    async fn attempt(&mut self, conn: &mut Connection, _: &Timers) -> Result<Ended, Error> {
        let (_, input) = self.drawn.as_ref().expect("a transaction is drawn before it is tried");
        if self.mode == StatementMode::Pipelined {
            self.statements.fly(input, conn, &mut self.scratch).await
        } else {
            self.statements.run(input, conn, &mut self.scratch).await
        }
    }

    fn keying(&mut self) -> Duration {
        self.drawn.as_ref().map_or(Duration::ZERO, |(drawn, _)| self.waits.keying(*drawn))
    }

    fn thinking(&mut self) -> Duration {
        self.drawn.as_ref().map_or(Duration::ZERO, |(drawn, _)| self.waits.thinking(*drawn))
    }

    async fn reconnect(&mut self, conn: &mut Connection) -> Result<(), Error> {
        self.statements = Statements::prepare(self.isolation, self.mode, conn).await?;
        Ok(())
    }
}

impl Input {
    fn draw(transaction: usize, home: &Home, stream: &mut Stream) -> Self {
        match transaction {
            0 => Self::NewOrder(NewOrder::draw(home, stream)),
            1 => Self::Payment(Payment::draw(home, stream)),
            2 => Self::OrderStatus(OrderStatus::draw(home, stream)),
            3 => Self::Delivery(Delivery::draw(home, stream)),
            4 => Self::StockLevel(StockLevel::draw(home, stream)),
            _ => unreachable!("TPC-C has five transactions, not number {transaction}"),
        }
    }
}

/// The index that `fraction` of [0, 1) falls on when the weights lie side by side.
fn pick(weights: &[f64], fraction: f64) -> usize {
    let mut rest = fraction * weights.iter().sum::<f64>();
    for (index, weight) in weights.iter().enumerate() {
        if rest < *weight {
            return index;
        }
        rest -= weight;
    }
    // Rounding may leave a crumb behind the last weight.
    weights.iter().rposition(|weight| *weight > 0.0).expect("a mix has a weight above 0")
}

/// Makes sure that the dataset has the scale of the job: else terminals would miss or ignore rows.
pub(super) async fn expect_warehouses(wanted: u32, conn: &mut Connection) -> Result<(), Error> {
    mark::expect_whole(conn).await?;
    let found = count(conn, "warehouses", "SELECT count(*) FROM warehouse").await?;
    if found == u64::from(wanted) {
        return Ok(());
    }
    Err(Error::Workload(format!("dataset has {found} warehouses, and the job asks for {wanted}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_picks_the_weight_it_falls_on() {
        let weights = [45.0, 43.0, 4.0, 4.0, 4.0];
        let cases =
            [(0.0, 0), (0.449, 0), (0.451, 1), (0.879, 1), (0.881, 2), (0.93, 3), (0.999, 4)];
        for (fraction, index) in cases {
            assert_eq!(pick(&weights, fraction), index, "{fraction}");
        }
    }

    #[test]
    fn a_weight_of_zero_is_never_picked() {
        assert_eq!(pick(&[0.0, 1.0, 0.0], 0.0), 1);
        assert_eq!(pick(&[0.0, 1.0, 0.0], 1.0), 1);
    }
}
