//! Which approvals count for which groups: the most that can, each person once.
//!
//! A flow from people who speak, through the people whose place they take, to the groups: each of the two lets one
//! approval through, a group as many as it asks for. So nobody is counted twice, whatever the order, and an approval
//! given to one group is moved to another when that makes room. Levels are filled in their order, and own places are
//! given out first.
//!
//! A flow forgets at a place who came in. Where what goes out of one is nothing that who came in could give, it is tried
//! for each who could come in, by themselves.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A group of a level: their places in the policy, from 0.
pub(super) type Seat = (usize, usize);

/// One way in which an approval could count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim<'a> {
    /// The person who speaks.
    pub(super) voter: &'a str,
    /// The person in whose place: themselves, or whom they are deputy of.
    pub(super) place: &'a str,
    /// The account that spoke.
    pub(super) account: &'a str,
    /// The group that it would count for.
    pub(super) seat: Seat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Node<'a> {
    Start,
    Voter(&'a str),
    PlaceIn(&'a str),
    PlaceOut(&'a str),
    Seat(Seat),
    End,
}

/// What may still flow from one node to the next.
#[derive(Debug, Default)]
struct Flow<'a>(BTreeMap<Node<'a>, BTreeMap<Node<'a>, u32>>);

/// The claims that are granted: as many as can be at once, with `room` for so many at each seat.
pub(super) fn granted<'a>(claims: &[Claim<'a>], room: &BTreeMap<Seat, u32>) -> Vec<Claim<'a>> {
    let flow = Flow::through(claims, room);
    let mut granted: Vec<Claim<'a>> = Vec::new();
    for claim in claims {
        let taken = flow.passes(Node::Voter(claim.voter), Node::PlaceIn(claim.place))
            && flow.passes(Node::PlaceOut(claim.place), Node::Seat(claim.seat))
            && !granted.iter().any(|other| other.voter == claim.voter);
        if taken {
            granted.push(*claim);
        }
    }
    let torn = claims.iter().map(|claim| claim.place).find(|place| {
        flow.passes(Node::PlaceIn(place), Node::PlaceOut(place)) && !granted.iter().any(|claim| claim.place == *place)
    });
    let Some(place) = torn else { return granted };
    let voters: BTreeSet<&str> = claims.iter().filter(|claim| claim.place == place).map(|claim| claim.voter).collect();
    for voter in voters {
        let with: Vec<Claim<'a>> =
            claims.iter().filter(|claim| claim.place != place || claim.voter == voter).copied().collect();
        let other = self::granted(&with, room);
        if other.len() > granted.len() {
            granted = other;
        }
    }
    granted
}

impl<'a> Flow<'a> {
    /// As much as can flow at once.
    fn through(claims: &[Claim<'a>], room: &BTreeMap<Seat, u32>) -> Self {
        let mut flow = Self::default();
        for (seat, room) in room {
            flow.open(Node::Seat(*seat), Node::End, *room);
        }
        let levels: BTreeSet<usize> = room.keys().map(|(level, _)| *level).collect();
        for (level, own) in levels.into_iter().flat_map(|level| [(level, true), (level, false)]) {
            let here = |claim: &&Claim<'_>| claim.seat.0 == level && (claim.voter == claim.place) == own;
            for claim in claims.iter().filter(here) {
                flow.open(Node::Start, Node::Voter(claim.voter), 1);
                flow.open(Node::Voter(claim.voter), Node::PlaceIn(claim.place), 1);
                flow.open(Node::PlaceIn(claim.place), Node::PlaceOut(claim.place), 1);
                flow.open(Node::PlaceOut(claim.place), Node::Seat(claim.seat), 1);
            }
            while flow.widen() {}
        }
        flow
    }

    /// Lets so much through that was not known of yet.
    fn open(&mut self, from: Node<'a>, to: Node<'a>, room: u32) {
        self.0.entry(from).or_default().entry(to).or_insert(room);
        self.0.entry(to).or_default().entry(from).or_insert(0);
    }

    /// Whether something flows from one to the other: then it could flow back.
    fn passes(&self, from: Node<'a>, to: Node<'a>) -> bool {
        self.0.get(&to).and_then(|back| back.get(&from)).is_some_and(|flown| *flown > 0)
    }

    /// Lets one more through, moving what has to be moved; `false` when no more can.
    fn widen(&mut self) -> bool {
        let mut came: BTreeMap<Node<'a>, Node<'a>> = BTreeMap::new();
        let mut ahead = VecDeque::from([Node::Start]);
        while let Some(node) = ahead.pop_front() {
            for (next, room) in self.0.get(&node).into_iter().flatten() {
                if *room > 0 && *next != Node::Start && !came.contains_key(next) {
                    came.insert(*next, node);
                    ahead.push_back(*next);
                }
            }
        }
        let mut node = Node::End;
        while let Some(before) = came.get(&node).copied() {
            let (there, back) = ((before, node), (node, before));
            for ((from, to), more) in [(there, false), (back, true)] {
                if let Some(room) = self.0.get_mut(&from).and_then(|edges| edges.get_mut(&to)) {
                    *room = if more { room.saturating_add(1) } else { room.saturating_sub(1) };
                }
            }
            node = before;
        }
        node == Node::Start
    }
}
