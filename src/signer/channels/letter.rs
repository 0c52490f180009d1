//! What a person is told: who asks, how much, for whom, the code to compare, where to look.
//!
//! Plain text in the person's language. It holds nothing secret: the link is an address, the account is told by its
//! end only. Texts that others chose are put on one line and into bounds, whatever they hold.

use super::Hours;
use crate::domain::Timestamp;
use crate::proof::{PaymentDocument, compare_code};

/// How many payments one message tells of; of more it says how many there are.
const MOST_ITEMS: usize = 10;
/// The longest of others' texts.
const MOST_CHARS: usize = 80;

/// A person's language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Language {
    /// English.
    #[default]
    English,
    /// Chinese, in simplified characters.
    Chinese,
}

impl Language {
    /// The tag that settings and messages name it by.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Chinese => "zh",
        }
    }

    /// The language of that tag.
    pub fn of(tag: &str) -> Option<Self> {
        [Self::English, Self::Chinese].into_iter().find(|language| language.as_str() == tag)
    }
}

/// One payment, as a message tells of it.
#[derive(Debug, Clone)]
pub(in crate::signer) struct Item {
    /// The gateway's id for it.
    pub(in crate::signer) payment_id: String,
    /// The caller's business key.
    pub(in crate::signer) order_id: String,
    /// Who asks.
    pub(in crate::signer) requester: String,
    /// How much.
    pub(in crate::signer) amount: String,
    /// For whom.
    pub(in crate::signer) payee: String,
    /// What must be the same on the page.
    pub(in crate::signer) code: String,
    /// Until when it can be decided.
    pub(in crate::signer) expires_at: String,
    /// The page.
    pub(in crate::signer) url: String,
}

/// A message to one person, as every channel is handed it.
#[derive(Debug, Clone)]
pub(in crate::signer) struct Letter {
    /// Its id, the same on every channel.
    pub(in crate::signer) id: String,
    /// Whom it is for.
    pub(in crate::signer) signer_id: String,
    /// Their language.
    pub(in crate::signer) language: Language,
    /// One line.
    pub(in crate::signer) title: String,
    /// All of it.
    pub(in crate::signer) text: String,
    /// Where to look first.
    pub(in crate::signer) url: String,
    /// How many payments wait.
    pub(in crate::signer) waiting: usize,
    /// Those it tells of.
    pub(in crate::signer) items: Vec<Item>,
}

/// How a person is written to.
#[derive(Debug, Clone, Copy)]
pub(in crate::signer) struct Wording<'a> {
    /// Their language.
    pub(in crate::signer) language: Language,
    /// Their clock.
    pub(in crate::signer) hours: &'a Hours,
}

impl Wording<'_> {
    /// How many payments a message tells of one by one.
    pub(in crate::signer) const MOST: usize = MOST_ITEMS;

    /// A payment, behind the page at `url`.
    pub(in crate::signer) fn item(&self, document: &PaymentDocument, digest: &str, url: String) -> Item {
        let chinese = self.language == Language::Chinese;
        let agent = line(&document.requester_agent);
        let requester = match (document.requester_principal.as_str(), chinese) {
            ("", _) => agent,
            (principal, false) => format!("{agent}, for {}", line(principal)),
            (principal, true) => format!("{agent}（代表 {}）", line(principal)),
        };
        let account = end_of(&document.payee_account);
        let payee = match (document.payee_name.as_str(), chinese) {
            ("", false) => format!("not on the payee list, account {account}"),
            ("", true) => format!("不在收款方名单上，账号 {account}"),
            (name, false) => format!("{}, account {account}", line(name)),
            (name, true) => format!("{}，账号 {account}", line(name)),
        };
        let expires_at = Timestamp::parse_rfc3339(&document.expires_at)
            .map_or_else(|| line(&document.expires_at), |at| self.hours.shown(at));
        Item {
            payment_id: document.payment_id.clone(),
            order_id: line(&document.order_id),
            requester,
            amount: document.amount_text().unwrap_or_default(),
            payee,
            code: compare_code(digest),
            expires_at,
            url,
        }
    }

    /// The message that tells of `items`, the first of `waiting`.
    pub(in crate::signer) fn letter(&self, id: String, signer_id: &str, items: Vec<Item>, waiting: usize) -> Letter {
        let several = waiting > 1;
        let amount = items.first().map(|item| item.amount.clone()).unwrap_or_default();
        let (title, intro, more, close) = match (self.language, several) {
            (Language::English, false) => (
                format!("A payment of {amount} waits for your decision"),
                "A payment waits for your decision.".to_owned(),
                String::new(),
                "Looking at the page decides nothing. The code there must be the same as here; if it is not, do not approve. \
                 A link that has lapsed can be asked for again: the payment is still there.",
            ),
            (Language::English, true) => (
                format!("{waiting} payments wait for you"),
                format!("{waiting} payments wait for your decision."),
                format!("And {} more.", waiting.saturating_sub(items.len())),
                "Looking at a page decides nothing. The code there must be the same as here; if it is not, do not approve. \
                 A link that has lapsed can be asked for again: the payment is still there.",
            ),
            (Language::Chinese, false) => (
                format!("一笔 {amount} 的付款等待您的决定"),
                "一笔付款等待您的决定。".to_owned(),
                String::new(),
                "打开页面不会作出任何决定。页面上的核对码必须与此处一致；如不一致，请勿批准。链接失效后可重新索取，付款仍然有效。",
            ),
            (Language::Chinese, true) => (
                format!("{waiting} 笔付款等待您的决定"),
                format!("{waiting} 笔付款等待您的决定。"),
                format!("另有 {} 笔。", waiting.saturating_sub(items.len())),
                "打开页面不会作出任何决定。页面上的核对码必须与此处一致；如不一致，请勿批准。链接失效后可重新索取，付款仍然有效。",
            ),
        };
        let mut parts = vec![intro];
        parts.extend(items.iter().map(|item| self.paragraph(item)));
        if waiting > items.len() {
            parts.push(more);
        }
        parts.push(close.to_owned());
        Letter {
            id,
            signer_id: signer_id.to_owned(),
            language: self.language,
            title,
            text: parts.join("\n\n") + "\n",
            url: items.first().map(|item| item.url.clone()).unwrap_or_default(),
            waiting,
            items,
        }
    }

    fn paragraph(&self, item: &Item) -> String {
        let Item { requester, amount, payee, order_id, code, expires_at, url, .. } = item;
        match self.language {
            Language::English => format!(
                "Asked for by: {requester}\nAmount: {amount}\nPayee: {payee}\nOrder: {order_id}\nCompare code: {code}\nDecide before: {expires_at}\n{url}"
            ),
            Language::Chinese => format!(
                "申请人：{requester}\n金额：{amount}\n收款方：{payee}\n订单：{order_id}\n核对码：{code}\n请在此之前决定：{expires_at}\n{url}"
            ),
        }
    }
}

/// Others' text on one line, without what is not seen, and into bounds.
fn line(text: &str) -> String {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let mut shown: String = text.chars().map(|c| if hidden(c) { ' ' } else { c }).take(MOST_CHARS).collect();
    if text.chars().nth(MOST_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

/// An account by its last characters.
fn end_of(account: &str) -> String {
    let shown = line(account);
    let from = shown.chars().count().saturating_sub(4);
    if from == 0 { shown } else { format!("…{}", shown.chars().skip(from).collect::<String>()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_texts_stay_on_one_line_and_in_bounds() {
        assert_eq!(line("a\r\nBcc: x@y\u{202e}z"), "a  Bcc: x@y z");
        assert_eq!(line(&"x".repeat(200)).chars().count(), MOST_CHARS + 1);
        assert_eq!(end_of("DE89370400440532013000"), "…3000");
        assert_eq!(end_of("abc"), "abc");
    }
}
