//! What may the caller say while a run lasts?

use std::future::pending;

use serde::Deserialize;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::io::clock::Moment;

/// What the caller said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// Open the window.
    Measure(Opening),
    /// Tell what time it is.
    Clock {
        /// Which of the questions this is.
        id: u64,
        /// When it came.
        received: Moment,
    },
    /// End the window at this moment.
    End(Moment),
    /// Nothing: the caller has gone.
    EndOfFile,
    /// Something that the contract does not know.
    Strange(String),
}

/// When a window is to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// As soon as all clients can know of it.
    Soon,
    /// At this moment.
    At(Moment),
}

/// Whoever started the driver, as far as a run listens.
pub(crate) struct Caller {
    said: UnboundedReceiver<Said>,
    asked: Option<Opening>,
    /// Whether other drivers put the rest of the load on the server.
    is_shared: bool,
}

impl Caller {
    pub(crate) fn new(said: UnboundedReceiver<Said>, is_shared: bool) -> Self {
        Self { said, asked: None, is_shared }
    }

    /// When the caller wants the window to open, once that has been said.
    pub(crate) fn asked(&self) -> Option<Opening> {
        self.asked
    }

    /// Waits for what the caller says next.
    ///
    /// One that has asked for the window may go; of several drivers none goes on without a caller, who alone knows
    /// that the others still do.
    pub(crate) async fn hear(&mut self) -> Said {
        loop {
            match self.said.recv().await {
                None => pending().await,
                Some(Said::EndOfFile) if self.asked.is_some() && !self.is_shared => {}
                Some(Said::Measure(opening)) => {
                    self.asked = Some(opening);
                    return Said::Measure(opening);
                }
                Some(said) => return said,
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Measure { at_s: Option<f64> },
    Clock { id: u64 },
    End { at_s: f64 },
}

impl Said {
    /// Understands a line that came at this moment.
    #[must_use]
    pub fn read(line: &str, received: Moment) -> Self {
        match serde_json::from_str(line) {
            Ok(Line::Measure { at_s: None }) => Self::Measure(Opening::Soon),
            Ok(Line::Measure { at_s: Some(at_s) }) => {
                Self::Measure(Opening::At(Moment::at_seconds(at_s)))
            }
            Ok(Line::Clock { id }) => Self::Clock { id, received },
            Ok(Line::End { at_s }) => Self::End(Moment::at_seconds(at_s)),
            Err(_) => Self::Strange(line.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_contract() {
        let now = Moment(7);
        for (line, said) in [
            (r#"{"type":"measure"}"#, Said::Measure(Opening::Soon)),
            (r#"{"type":"measure","at_s":1.5}"#, Said::Measure(Opening::At(Moment(1_500_000_000)))),
            (r#"{"type":"clock","id":3}"#, Said::Clock { id: 3, received: now }),
            (r#"{"type":"end","at_s":2}"#, Said::End(Moment(2_000_000_000))),
        ] {
            assert_eq!(Said::read(line, now), said, "{line}");
        }
        for line in ["", "{}", r#"{"type":"end"}"#, r#"{"type":"measure","when":1}"#] {
            assert_eq!(Said::read(line, now), Said::Strange(line.into()), "{line}");
        }
    }
}
