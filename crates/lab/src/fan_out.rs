//! Number of units of the level below in each unit, as in options and files: `64`, `8,8`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Number of units of the next lower level in each unit, from the committee down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FanOut(pub Vec<u16>);

/// One level: a committee is a cell.
const NONE: &str = "none";

impl FromStr for FanOut {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == NONE {
            return Ok(FanOut(Vec::new()));
        }
        let number = |part: &str| {
            let number = part.parse().ok().filter(|number| *number > 0);
            number.ok_or_else(|| format!("must be numbers from 1 as in 8,8, or {NONE}"))
        };
        text.split(',')
            .map(number)
            .collect::<Result<_, _>>()
            .map(FanOut)
    }
}

impl TryFrom<String> for FanOut {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<FanOut> for String {
    fn from(fan_out: FanOut) -> String {
        fan_out.to_string()
    }
}

impl fmt::Display for FanOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str(NONE);
        }
        let numbers: Vec<String> = self.0.iter().map(u16::to_string).collect();
        f.write_str(&numbers.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_is_written() {
        for (text, numbers) in [("none", &[][..]), ("64", &[64]), ("8,8", &[8, 8])] {
            let fan_out: FanOut = text.parse().unwrap();
            assert_eq!(
                (&fan_out.0[..], fan_out.to_string()),
                (numbers, text.into())
            );
        }
        for wrong in ["", "0", "8,", "8,0", "8x8", "65536"] {
            assert!(wrong.parse::<FanOut>().is_err(), "{wrong}");
        }
    }
}
