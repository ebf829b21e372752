//! Was the dataset loaded to its end?
//!
//! While a load goes on, a comment on table "warehouse" says so. A load that was stopped, killed or lost its
//! server leaves the mark behind. A dataset that another program loaded has none, and is taken as whole.

use crate::error::Error;
use crate::session::Connection;

/// Made together with the tables.
pub const SET: &str = "COMMENT ON TABLE warehouse IS 'pgdrag: loading has not ended'";
/// The last statement of a load.
pub const CLEAR: &str = "COMMENT ON TABLE warehouse IS NULL";

const IS_SET: &str = "SELECT count(*) FROM pg_description
    WHERE objoid = to_regclass('warehouse') AND objsubid = 0
        AND description = 'pgdrag: loading has not ended'";

/// Refuses a dataset of which only a part is there.
pub async fn expect_whole(conn: &mut Connection) -> Result<(), Error> {
    let rows = conn.simple_rows(IS_SET).await?;
    if rows.first().and_then(|row| row.first()?.as_deref()) == Some("0") {
        return Ok(());
    }
    Err(Error::Workload(
        "dataset is not whole: its load was stopped, failed, or still goes on; load it again"
            .into(),
    ))
}
