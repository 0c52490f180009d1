//! `countersign sign`: a signer sees the exact payment, then approves or rejects it with a key file.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::client::{McpClient, ToolAnswer};
use super::home::Card;
use super::output::{put, say};
use super::way_in::WayIn;
use super::{CommandFault, failed, read};
use crate::domain::{Choice, PaymentId};
use crate::proof::{
    DecisionDocument, PaymentDocument, SigningKey, compare_code, key_id_of, payment_digest, sign_detached,
};

/// Options of `sign`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  countersign sign order-1                      beside a running `countersign dev`\n  countersign sign order-1 --reject --reason 'not ours'\n  countersign sign order-1 --url https://pay.example/mcp --token-file token --key finance-1.pem --yes"
)]
pub(super) struct Sign {
    /// The order, or a payment id
    order: String,
    /// Reject instead of approving
    #[arg(long, requires = "reason")]
    reject: bool,
    /// Why, for a rejection
    #[arg(long)]
    reason: Option<String>,
    /// Who signs, of the dev signers
    #[arg(long, default_value = "finance-1")]
    signer: String,
    #[command(flatten)]
    way_in: WayIn,
    /// Your private key (PKCS#8 PEM, Ed25519)
    #[arg(long)]
    key: Option<PathBuf>,
    /// The name your key is enrolled under; by default the one made from the key itself
    #[arg(long)]
    key_id: Option<String>,
    /// Do not ask before signing
    #[arg(long)]
    yes: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Where to sign, as whom, with what.
struct Desk {
    url: String,
    token: String,
    key: SigningKey,
    key_id: String,
}

impl Sign {
    pub(super) async fn run(self) -> Result<(), CommandFault> {
        let desk = self.desk()?;
        let client = McpClient::connect(&desk.url, &desk.token).await.map_err(failed)?;
        let choice = if self.reject { Choice::Reject } else { Choice::Approve };
        let payment = selector(&self.order);
        let approval =
            call(&client, "get_approval", with(&payment, &[("decision", choice.as_str()), ("reason", self.reason())]))
                .await?;
        let document = self.check(&approval, &desk, choice)?;
        if !self.json {
            say(shown(&approval)?);
        }
        if !self.yes && !confirmed(choice)? {
            return Err(failed("nothing was signed"));
        }
        let jws = sign_detached(&desk.key, &desk.key_id, &document).map_err(failed)?;
        let answer = match choice {
            Choice::Approve => call(&client, "confirm_signing", with(&payment, &[("signature", &jws)])).await?,
            Choice::Reject => {
                call(&client, "reject_signing", with(&payment, &[("signature", &jws), ("reason", self.reason())]))
                    .await?
            }
        };
        if self.json {
            say(&answer.body);
        } else {
            say(format_args!("{}: {}", answer.text("status"), answer.text("message")));
        }
        Ok(())
    }

    fn reason(&self) -> &str {
        self.reason.as_deref().unwrap_or_default()
    }

    fn desk(&self) -> Result<Desk, CommandFault> {
        let (url, token) = self.way_in.given()?;
        let own = url.is_some() && token.is_some() && self.key.is_some();
        let card = if own { None } else { Some(Card::read(&self.way_in.data_dir)?) };
        let signer = card.as_ref().and_then(|card| card.signers.iter().find(|entry| entry.signer_id == self.signer));
        let missing =
            |what: &str| CommandFault::Unusable(format!("{what} is needed: there is no dev signer {:?}", self.signer));
        let url = url.or_else(|| card.as_ref().map(|card| card.mcp_url.clone())).ok_or_else(|| missing("--url"))?;
        let token = token.or_else(|| signer.map(|entry| entry.token.clone())).ok_or_else(|| missing("--token"))?;
        let file =
            self.key.clone().or_else(|| signer.map(|entry| entry.key_file.clone())).ok_or_else(|| missing("--key"))?;
        let pem = read(&file)?;
        if pem.contains("PUBLIC KEY") {
            let why = "is a public key; sign with its private half";
            return Err(CommandFault::Unusable(format!("{}: {why}", file.display())));
        }
        let key =
            SigningKey::from_pem(&pem).map_err(|err| CommandFault::Unusable(format!("{}: {err}", file.display())))?;
        let key_id = self.key_id.clone().unwrap_or_else(|| key_id_of(&key.public()));
        Ok(Desk { url, token, key, key_id })
    }

    /// What is signed is what is shown: the documents are checked against each other here, and the
    /// decision is rebuilt from what it must say, so that a lying gateway gets no other signature.
    fn check(&self, approval: &ToolAnswer, desk: &Desk, choice: Choice) -> Result<String, CommandFault> {
        if !approval.text("decided").is_empty() {
            return Err(failed(approval.text("message")));
        }
        let forms = approval
            .body
            .get("to_sign")
            .and_then(Value::as_array)
            .ok_or_else(|| failed("the gateway gave nothing to sign"))?;
        // Held, or past deciding: the person is not asked for what would be refused.
        let wanted = ["confirm_signing", "reject_signing"].contains(&approval.text("next_action"));
        if !wanted && !forms.is_empty() {
            return Err(failed(approval.text("message")));
        }
        // The same key confirms nothing: another of theirs does.
        let used = approval.body.get("confirmed_by").and_then(Value::as_array);
        if used.is_some_and(|used| used.iter().any(|key| key.as_str() == Some(&desk.key_id)))
            && choice == Choice::Approve
        {
            return Err(failed(approval.text("message")));
        }
        let form = forms.iter().find(|form| form.get("key_id").and_then(Value::as_str) == Some(&desk.key_id));
        let text = form.and_then(|form| form.get("decision_document")).and_then(Value::as_str).ok_or_else(|| {
            failed(format_args!(
                "your key {} does not count here: an operator enrols it with `countersign keys enrol`, and has it certified where there is a registry root; one that was revoked never counts again",
                desk.key_id
            ))
        })?;
        let payload = approval.text("payment_document");
        let payment =
            PaymentDocument::parse(payload).ok_or_else(|| failed("the payment document is not in canonical form"))?;
        let asked = payment.order_id == self.order || payment.payment_id == self.order;
        let decision =
            DecisionDocument::parse(text).ok_or_else(|| failed("the decision document is not in canonical form"))?;
        let honest = asked
            && decision.payment_digest == payment_digest(payload)
            && decision.choice() == Some(choice)
            && decision.reason == self.reason()
            && decision.key_id == desk.key_id;
        if honest {
            Ok(text.to_owned())
        } else {
            Err(failed("the documents do not speak of the payment you asked for; nothing was signed"))
        }
    }
}

/// The arguments that name a payment, by its id or its order's.
pub(super) fn selector(order: &str) -> Value {
    let key = if order.parse::<PaymentId>().is_ok() { "payment_id" } else { "order_id" };
    json!({ key: order })
}

/// The payment, from the signed document alone.
fn shown(approval: &ToolAnswer) -> Result<String, CommandFault> {
    let payload = approval.text("payment_document");
    let payment =
        PaymentDocument::parse(payload).ok_or_else(|| failed("the payment document is not in canonical form"))?;
    let amount = payment.amount_text().ok_or_else(|| failed("the amount in the payment document can't be read"))?;
    let name = if payment.payee_name.is_empty() { "name not verified" } else { &payment.payee_name };
    Ok(format!(
        "\n  Amount        {amount}\n  To            {} ({name})\n  From          {}\n  Order         {}\n  For           {}\n  Asked by      {}\n  Decide before {}\n  Compare code  {}\n",
        payment.payee_account,
        payment.payer_account,
        payment.order_id,
        if payment.purpose.is_empty() { "-" } else { &payment.purpose },
        payment.requester_agent,
        payment.expires_at,
        compare_code(&payment_digest(payload)),
    ))
}

fn confirmed(choice: Choice) -> Result<bool, CommandFault> {
    if !std::io::stdin().is_terminal() {
        return Err(CommandFault::Unusable(
            "there is no terminal to ask at; pass --yes to sign without being asked".to_owned(),
        ));
    }
    put(format_args!("Type {} to sign: ", choice.as_str()));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(failed)?;
    Ok(line.trim() == choice.as_str())
}

fn with(payment: &Value, members: &[(&str, &str)]) -> Value {
    let mut arguments = payment.clone();
    if let Some(arguments) = arguments.as_object_mut() {
        for (key, value) in members.iter().filter(|(_, value)| !value.is_empty()) {
            arguments.insert((*key).to_owned(), json!(value));
        }
    }
    arguments
}

/// Calls a tool whose error result is the command's failure.
pub(super) async fn call(client: &McpClient, tool: &str, arguments: Value) -> Result<ToolAnswer, CommandFault> {
    let answer = client.call(tool, arguments).await.map_err(failed)?;
    if answer.is_error {
        return Err(failed(format_args!("{}: {}", answer.text("error_code"), answer.text("error_message"))));
    }
    Ok(answer)
}
