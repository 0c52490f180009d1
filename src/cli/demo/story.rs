//! The account of a demo: what was done, what was expected, what was seen.

use crate::cli::output::say;
use serde_json::{Value, json};

/// One promise that was looked at.
#[derive(Debug)]
struct Scene {
    act: String,
    promise: String,
    seen: String,
    held: bool,
}

/// The account so far.
#[derive(Debug)]
pub(super) struct Story {
    told: bool,
    act: String,
    scenes: Vec<Scene>,
    broke: Option<String>,
}

impl Story {
    /// An empty account; `told` prints it as it grows.
    pub(super) const fn new(told: bool) -> Self {
        Self { told, act: String::new(), scenes: Vec::new(), broke: None }
    }

    fn say(&self, line: &str) {
        if self.told {
            say(line);
        }
    }

    /// Begins an act.
    pub(super) fn act(&mut self, title: &str) {
        title.clone_into(&mut self.act);
        self.say(&format!("\n{title}"));
    }

    /// Tells something that is no promise.
    pub(super) fn tell(&self, line: &str) {
        self.say(&format!("      {line}"));
    }

    /// Looks at a promise.
    pub(super) fn check(&mut self, promise: &str, held: bool, seen: impl Into<String>) {
        let seen = seen.into();
        let mark = if held { "ok  " } else { "FAIL" };
        self.say(&format!("  {mark}{promise}"));
        if !seen.is_empty() {
            self.say(&format!("      {seen}"));
        }
        self.scenes.push(Scene { act: self.act.clone(), promise: promise.to_owned(), seen, held });
    }

    /// The story could not be played to its end.
    pub(super) fn broke_off(&mut self, why: &str) {
        self.say(&format!("\nThe demo broke off: {why}"));
        self.broke = Some(why.to_owned());
    }

    /// Whether it was played to its end and every promise held.
    pub(super) fn held(&self) -> bool {
        self.broke.is_none() && !self.scenes.is_empty() && self.scenes.iter().all(|scene| scene.held)
    }

    /// The last words.
    pub(super) fn end(&self) {
        let held = self.scenes.iter().filter(|scene| scene.held).count();
        self.say(&format!("\n{held} of {} promises held.", self.scenes.len()));
    }

    /// The account for a program.
    pub(super) fn json(&self) -> Value {
        let scenes: Vec<Value> = self
            .scenes
            .iter()
            .map(|scene| json!({"act": scene.act, "promise": scene.promise, "seen": scene.seen, "held": scene.held}))
            .collect();
        json!({"held": self.held(), "broke_off": self.broke, "promises": scenes})
    }
}
