//! JSON read strictly: no key twice, bounded nesting, numbers left as their text.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// How deep arrays and objects may nest.
pub const MAX_DEPTH: usize = 32;

/// What is wrong with a text that is otherwise JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonFault {
    /// A string that is no Unicode text, such as a lone surrogate.
    Text,
    /// An object names this key twice.
    Duplicate(String),
    /// Nested deeper than [`MAX_DEPTH`].
    Deep,
}

/// The members of an object in order, each value as its source text. Keys may repeat.
#[derive(Debug)]
pub struct Members<'a>(pub Vec<(String, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Reads an object; `None` when `raw` is not one, or a key is no Unicode text.
    pub fn of(raw: &'a RawValue) -> Option<Self> {
        serde_json::from_str(raw.get()).ok()
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| *value)
    }

    /// The value of a key, where it is a string.
    pub fn text(&self, key: &str) -> Option<String> {
        self.get(key).and_then(|raw| serde_json::from_str(raw.get()).ok())
    }

    /// A key that is there twice.
    fn repeated(&self) -> Option<&str> {
        let mut seen = BTreeSet::new();
        self.0.iter().map(|(name, _)| name.as_str()).find(|name| !seen.insert(*name))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Vec<(String, &'de RawValue)>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    members.push((key, map.next_value()?));
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Reader).map(Members)
    }
}

struct Items<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Items<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Vec<&'de RawValue>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(items)
            }
        }
        deserializer.deserialize_seq(Reader).map(Items)
    }
}

/// Checks a value that stands at `depth` (the outermost is 1), and all within it.
///
/// Recursion is safe: it ends at [`MAX_DEPTH`].
pub fn check(raw: &RawValue, depth: usize) -> Result<(), JsonFault> {
    match raw.get().as_bytes().first() {
        Some(b'{' | b'[') if depth > MAX_DEPTH => Err(JsonFault::Deep),
        Some(b'{') => {
            let members = Members::of(raw).ok_or(JsonFault::Text)?;
            distinct(&members)?;
            members.0.iter().try_for_each(|(_, value)| check(value, depth + 1))
        }
        Some(b'[') => {
            let items: Items<'_> = serde_json::from_str(raw.get()).map_err(|_| JsonFault::Text)?;
            items.0.iter().try_for_each(|item| check(item, depth + 1))
        }
        Some(b'"') => serde_json::from_str::<Cow<'_, str>>(raw.get()).map(drop).map_err(|_| JsonFault::Text),
        // Numbers and literals: syntax was checked when the text was cut up, values are not ours to read.
        _ => Ok(()),
    }
}

/// Checks that an object names no key twice.
pub fn distinct(members: &Members<'_>) -> Result<(), JsonFault> {
    members.repeated().map_or(Ok(()), |key| Err(JsonFault::Duplicate(key.chars().take(64).collect())))
}
