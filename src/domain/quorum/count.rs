//! Counting votes, one after the other.

use std::collections::{BTreeMap, BTreeSet};

use super::assign::{Claim, Seat, granted};
use super::people::barred;
use super::{Standing, Vote};
use crate::domain::choice::Choice;
use crate::domain::id::SignerId;
use crate::domain::payment::Terms;
use crate::domain::policy::{Answer, ApprovalPolicy, Level};
use crate::domain::time::Timestamp;

/// The votes so far, counted.
#[derive(Debug, Clone)]
pub(super) struct Count<'a> {
    policy: &'a ApprovalPolicy,
    terms: &'a Terms,
    /// The level that is open, from 0; one past the last when all are complete.
    level: usize,
    /// When a vote opened it; `None` for the first.
    opened: Option<Timestamp>,
    /// What the approvals at the levels that are complete could count for: which does may change with later ones.
    past: Vec<Claim<'a>>,
    /// The approvals given at the open level.
    here: Vec<&'a Vote>,
    /// People who gave their word at a level that is complete.
    spent: BTreeSet<&'a str>,
    /// People who said no.
    refused: BTreeSet<&'a str>,
    rejected: bool,
}

impl<'a> Count<'a> {
    pub(super) fn of(policy: &'a ApprovalPolicy, terms: &'a Terms, votes: &'a [Vote]) -> Self {
        let mut count = Self {
            policy,
            terms,
            level: 0,
            opened: None,
            past: Vec::new(),
            here: Vec::new(),
            spent: BTreeSet::new(),
            refused: BTreeSet::new(),
            rejected: false,
        };
        for vote in votes {
            count.take(vote);
        }
        count
    }

    fn take(&mut self, vote: &'a Vote) {
        let person = self.policy.person(vote.signer.as_str());
        if self.rejected || !self.is_entitled(vote.signer.as_str(), vote.at) {
            return;
        }
        match vote.choice {
            Choice::Approve => self.here.push(vote),
            Choice::Reject if self.policy.any_reject == Answer::Yes => self.rejected = true,
            // A no is never talked over: by another account or a deputy of theirs neither.
            Choice::Reject => drop(self.refused.insert(person)),
        }
        if self.is_enough(&self.approvals(), self.level) {
            self.past.extend(self.given());
            self.spent.extend(self.here.drain(..).map(|vote| self.policy.person(vote.signer.as_str())));
            self.level = self.level.saturating_add(1);
            self.opened = Some(vote.at);
        }
    }

    /// Whether a word of `account` at `at` is one of the open level's.
    pub(super) fn is_entitled(&self, account: &str, at: Timestamp) -> bool {
        self.open().is_some_and(|open| self.speaks_at(open, account, Some(at)))
    }

    /// Whether `account` has a voice at a level after the open one, now or later.
    pub(super) fn comes_later(&self, account: &str) -> bool {
        let later = self.policy.levels.iter().skip(self.level.saturating_add(1));
        later.into_iter().any(|level| self.speaks_at(level, account, None))
    }

    fn speaks_at(&self, level: &Level, account: &str, at: Option<Timestamp>) -> bool {
        let bars = |account: &str| barred(self.policy, self.terms, account);
        !bars(account) && self.policy.voices(account, at).any(|voice| level.has(voice) && !bars(voice))
    }

    /// The level that is open.
    pub(super) fn open(&self) -> Option<&'a Level> {
        self.policy.levels.get(self.level)
    }

    /// When a vote opened the open level; `None` for the first.
    pub(super) fn opened(&self) -> Option<Timestamp> {
        self.opened
    }

    /// The approvals that count: at the levels that are complete, and at the open one.
    pub(super) fn approvals(&self) -> Vec<Claim<'a>> {
        granted(&[self.past.clone(), self.given()].concat(), &self.room(self.level))
    }

    /// Whether so many complete the levels up to `last`.
    fn is_enough(&self, granted: &[Claim<'a>], last: usize) -> bool {
        let levels = self.policy.levels.iter().take(last.saturating_add(1));
        let needed = levels.map(Level::required).fold(0, u32::saturating_add);
        u32::try_from(granted.len()).is_ok_and(|count| count >= needed)
    }

    /// What the levels up to `last` ask for.
    fn room(&self, last: usize) -> BTreeMap<Seat, u32> {
        let levels = self.policy.levels.iter().enumerate().take(last.saturating_add(1));
        let groups = levels.flat_map(|(at, level)| {
            level.groups.iter().enumerate().map(move |(group, asked)| ((at, group), asked.required()))
        });
        groups.collect()
    }

    /// What each account's approvals at the open level could count for: those confirmed as often as the rule asks.
    fn given(&self) -> Vec<Claim<'a>> {
        let mut claims = Vec::new();
        let accounts: BTreeSet<&str> = self.here.iter().map(|vote| vote.signer.as_str()).collect();
        for account in accounts {
            for voice in self.policy.voices(account, None) {
                let given = self.here.iter().filter(|vote| {
                    vote.signer.as_str() == account
                        && self.policy.voices(account, Some(vote.at)).any(|then| then == voice)
                });
                let keys: BTreeSet<&str> = given.map(|vote| vote.key.as_str()).collect();
                if u32::try_from(keys.len()).is_ok_and(|keys| keys >= self.policy.confirmations()) {
                    claims.extend(self.claims(account, voice, self.level));
                }
            }
        }
        claims
    }

    /// What a word of `account` in the place of `voice` could count for at a level.
    fn claims(&self, account: &'a str, voice: &'a str, level: usize) -> Vec<Claim<'a>> {
        let (voter, place) = (self.policy.person(account), self.policy.person(voice));
        let silent =
            self.spent.contains(voter) || self.refused.contains(voter) || barred(self.policy, self.terms, account);
        if silent || self.refused.contains(place) || barred(self.policy, self.terms, voice) {
            return Vec::new();
        }
        let groups = self.policy.levels.get(level).into_iter().flat_map(|level| level.groups.iter().enumerate());
        let in_it = groups.filter(|(_, group)| group.signers.contains(voice));
        in_it.map(|(group, _)| Claim { voter, place, account, seat: (level, group) }).collect()
    }

    /// Whether those who have not spoken yet could still complete every level: the open one, with `asked`, by these
    /// alone at that time.
    pub(super) fn is_reachable(&self, asked: Option<(&[SignerId], Timestamp)>) -> bool {
        let spoke: BTreeSet<&str> = self.here.iter().map(|vote| self.policy.person(vote.signer.as_str())).collect();
        let mut claims = [self.past.clone(), self.given()].concat();
        for account in self.policy.signers() {
            let levels = if spoke.contains(self.policy.person(account)) { 1 } else { usize::MAX };
            for (level, _) in self.policy.levels.iter().enumerate().skip(self.level).take(levels) {
                let asked = asked.filter(|_| level == self.level);
                if asked.is_some_and(|(signers, _)| !signers.iter().any(|signer| signer.as_str() == account)) {
                    continue;
                }
                for voice in self.policy.voices(account, asked.map(|(_, at)| at)) {
                    claims.extend(self.claims(account, voice, level));
                }
            }
        }
        self.is_enough(&granted(&claims, &self.room(usize::MAX)), usize::MAX)
    }

    pub(super) fn standing(&self) -> Standing {
        let approvals = u32::try_from(self.approvals().len()).unwrap_or(u32::MAX);
        if self.rejected {
            Standing::Rejected
        } else if self.open().is_none() {
            Standing::Complete { approvals }
        } else if self.is_reachable(None) {
            Standing::Pending { approvals, level: self.level }
        } else {
            Standing::Rejected
        }
    }

    /// How many are still missing, by group, at the open level and those after it.
    pub(super) fn missing(&self) -> Vec<(&'a str, u32)> {
        let granted = self.approvals();
        let mut missing: Vec<(&str, u32)> = Vec::new();
        for (seat, asked) in self.room(usize::MAX).into_iter().filter(|((level, _), _)| *level >= self.level) {
            let have = granted.iter().filter(|claim| claim.seat == seat).count();
            let lack = asked.saturating_sub(u32::try_from(have).unwrap_or(u32::MAX));
            let (level, group) = seat;
            let Some(group) = self.policy.levels.get(level).and_then(|level| level.groups.get(group)) else { continue };
            match missing.iter_mut().find(|(name, _)| *name == group.group) {
                Some((_, sum)) => *sum = sum.saturating_add(lack),
                None => missing.push((&group.group, lack)),
            }
        }
        missing.retain(|(_, lack)| *lack > 0);
        missing
    }
}
