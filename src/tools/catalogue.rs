//! Every tool: its name, what a model is told about it, its schemas.

use serde_json::{Map, Value, json};

use super::arguments::LONGEST_SIGNATURE;
use crate::domain::Status;

/// What a call can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Impact {
    /// It changes nothing.
    Reads,
    /// It changes something that can be undone or does no harm.
    Changes,
    /// It starts or ends something that can't be undone.
    Commits,
}

/// A tool as it is published.
#[derive(Debug, Clone, Copy)]
pub struct ToolSpec {
    /// The name.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// For models: what it does and what to do next.
    pub description: &'static str,
    /// What a call can do.
    pub impact: Impact,
    /// Whether repeating the identical call changes nothing more.
    pub idempotent: bool,
    /// Whether only the dev profile has it.
    pub dev_only: bool,
    properties: fn() -> Value,
    required: &'static [&'static str],
    one_payment: bool,
}

const READ: ToolSpec = ToolSpec {
    name: "",
    title: "",
    description: "",
    impact: Impact::Reads,
    idempotent: true,
    dev_only: false,
    properties: || json!({}),
    required: &[],
    one_payment: false,
};
const ONE: ToolSpec = ToolSpec { one_payment: true, ..READ };
const ACT: ToolSpec = ToolSpec { impact: Impact::Changes, ..ONE };

/// Every tool, in the order of a payment's life.
pub const TOOLS: [ToolSpec; 22] = [
    ToolSpec {
        name: "create_payment",
        title: "Propose a payment",
        description: "Propose a payment. It is recorded durably and executed exactly once, only after a person has countersigned it; \
            you can never sign it yourself. Returns at once. To repeat the SAME payment after a lost answer, send the SAME arguments \
            (and the same idempotency_key if you gave one): you get the same payment back. Use a new idempotency_key only for a NEW \
            payment. Next: notify_signer (or pass notify:true), then get_payment_status.",
        impact: Impact::Commits,
        one_payment: false,
        properties: create_properties,
        required: &["order_id", "amount"],
        ..ACT
    },
    ToolSpec {
        name: "notify_signer",
        title: "Reach the signer",
        description: "Ask the signer service to reach the signers. Call it once after create_payment. SIGNER_UNREACHABLE is a normal \
            answer: the gateway goes on trying by itself with back-off, so do not call this in a loop. Next: get_payment_status.",
        ..ACT
    },
    ToolSpec {
        name: "get_payment_status",
        title: "Follow a payment",
        description: "Read where a payment stands and what to do next. wait_ms (up to 25000) waits for a change and then answers in any \
            case; a wait that runs out changes nothing. Follow next_action and retry_after_ms; never create a second payment because \
            this one is slow.",
        properties: || {
            json!({"wait_ms": {"type": ["integer", "null"], "minimum": 0, "maximum": 25000,
            "description": "Milliseconds to wait for a change; 0 or absent answers at once."}})
        },
        ..ONE
    },
    ToolSpec {
        name: "get_sign_link",
        title: "Get the sign page's address",
        description: "Get a short-lived address of the page where the signer sees and decides the payment, to pass on to that person. \
            The address approves nothing by itself and may be asked for again at any time while the payment is open.",
        ..ACT
    },
    ToolSpec {
        name: "check_sign_status",
        title: "Ask the signer service now",
        description: "Ask the signer service right now for a decision, instead of waiting for its callback. Bounded; rarely needed. \
            get_payment_status is cheaper.",
        ..ACT
    },
    ToolSpec {
        name: "cancel_payment",
        title: "Call a payment off",
        description: "Call a payment off. Immediate until it is being executed; after that the answer says CANCEL_PENDING and the \
            payment may still be executed. Calling off twice is answered alike.",
        impact: Impact::Commits,
        ..ACT
    },
    ToolSpec {
        name: "list_payments",
        title: "List payments",
        description: "List your payments, newest first, 20 a page. Pass next_cursor as cursor for the next page.",
        properties: || {
            json!({"status": {"type": ["string", "null"], "enum": statuses(), "description": "Only payments in this state."},
            "cursor": cursor()})
        },
        ..READ
    },
    ToolSpec {
        name: "list_approvals",
        title: "What waits for your signature",
        description: "List the payments that wait for your decision, oldest first. Next: get_approval for each that is not held; \
            nothing held is to be signed.",
        properties: || json!({"cursor": cursor()}),
        ..READ
    },
    ToolSpec {
        name: "get_approval",
        title: "See exactly what you sign",
        description: "Get the exact payment document and, for each of your keys, the exact decision document to sign as an Ed25519 \
            detached JWS (RFC 7515 appendix F; header {\"alg\":\"EdDSA\",\"kid\":key_id,\"typ\":\"countersign-approval+jws\"}). \
            Next: confirm_signing, or reject_signing with the same reason; nothing while an operator holds it (held).",
        properties: || {
            json!({
            "decision": {"type": ["string", "null"], "enum": ["approve", "reject", null], "description": "Which decision to prepare; approve when absent."},
            "reason": {"type": ["string", "null"], "maxLength": 512, "description": "Your reason, exactly as you will send it with reject_signing."}})
        },
        ..ONE
    },
    ToolSpec {
        name: "confirm_signing",
        title: "Approve with your signature",
        description: "Approve a payment with your detached JWS over the decision document of get_approval. The same confirmation again \
            is answered alike and changes nothing.",
        impact: Impact::Commits,
        properties: || json!({"signature": signature()}),
        required: &["signature"],
        ..ACT
    },
    ToolSpec {
        name: "reject_signing",
        title: "Reject with your signature",
        description: "Reject a payment with your detached JWS over the decision document that get_approval gave for decision \"reject\" \
            and this reason. Final.",
        impact: Impact::Commits,
        properties: || {
            json!({"signature": signature(),
            "reason": {"type": "string", "maxLength": 512, "description": "Why, as signed."}})
        },
        required: &["signature", "reason"],
        ..ACT
    },
    ToolSpec {
        name: "list_attention",
        title: "What needs a person",
        description: "List payments that need a person: NEED_MANUAL, held ones, unknown outcomes, contradictions, \
            and those whose work fails again and again (parked). Oldest first.",
        properties: || json!({"cursor": cursor()}),
        ..READ
    },
    ToolSpec {
        name: "resend_notification",
        title: "Try to reach the signers again",
        description: "Start a new campaign of attempts to reach the signers of a payment, also from NEED_MANUAL.",
        idempotent: false,
        ..ACT
    },
    ToolSpec {
        name: "explain_payment",
        title: "Why is it where it is?",
        description: "An ordered list of checks: where the payment is stuck, what was found, what to do now; obstacle names the first that \
            stands in the way, and is absent when nothing does. Asks the signer service and the rail now.",
        ..ONE
    },
    ToolSpec {
        name: "reassign_signer",
        title: "Ask another signer first",
        description: "Ask another of the people that the payment's rule makes eligible, with a new campaign of attempts.",
        idempotent: false,
        properties: || json!({"signer_id": {"type": "string", "maxLength": 64}}),
        required: &["signer_id"],
        ..ACT
    },
    ToolSpec {
        name: "hold_payment",
        title: "Take a payment over by hand",
        description: "Hold a payment before you pay it another way: decisions, expiry, cancel and execution are blocked, and the order \
            stays taken. Refused once it may be on its way. One person holds; two release or attest.",
        properties: || json!({"reason": {"type": "string", "minLength": 1, "maxLength": 512, "description": "Why."}}),
        required: &["reason"],
        ..ACT
    },
    ToolSpec {
        name: "release_hold",
        title: "Let a held payment go on",
        description: "Let a held payment go on where it was. Two different operators must call this.",
        properties: || json!({"evidence": evidence()}),
        required: &["evidence"],
        ..ACT
    },
    ToolSpec {
        name: "attest_executed",
        title: "Attest that the money moved",
        description: "Attest that a held payment was paid by hand, or that one with unknown outcome was carried out. Two different \
            operators must call this with the same reference. Final.",
        impact: Impact::Commits,
        properties: || {
            json!({"evidence": evidence(),
            "reference": {"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[A-Za-z0-9._:/-]+$",
                "description": "What proves it, such as the bank's reference."}})
        },
        required: &["evidence", "reference"],
        ..ACT
    },
    ToolSpec {
        name: "attest_not_executed",
        title: "Attest that the money did not move",
        description: "Attest that a payment with unknown outcome was not carried out; it is then sent under a new key. Refused before \
            the rail's key lifetime and read lag have passed. Two different operators must call this.",
        impact: Impact::Commits,
        properties: || json!({"evidence": evidence()}),
        required: &["evidence"],
        ..ACT
    },
    ToolSpec {
        name: "get_evidence",
        title: "Everything that stands behind a payment",
        description: "The signed documents in their exact bytes, every decision with its proof, the keys, what was sent, and the audit \
            entries.",
        ..ONE
    },
    ToolSpec {
        name: "list_audit",
        title: "Read the audit chain",
        description: "The tenant's hash-chained audit, in order, 50 entries a page. Pass next_cursor as cursor for the next page.",
        properties: || json!({"cursor": cursor()}),
        ..READ
    },
    ToolSpec {
        name: "simulate_signer_online",
        title: "Switch a signer's presence (dev)",
        description: "Dev profile only: make a signer of the reference signer service reachable or not.",
        dev_only: true,
        one_payment: false,
        properties: || json!({"signer_id": {"type": "string", "maxLength": 64}, "online": {"type": "boolean"}}),
        required: &["signer_id", "online"],
        ..ACT
    },
];

/// Every tool's name.
pub fn names() -> Vec<&'static str> {
    TOOLS.iter().map(|tool| tool.name).collect()
}

/// The tool of that exact name.
pub fn find(name: &str) -> Option<&'static ToolSpec> {
    TOOLS.iter().find(|tool| tool.name == name)
}

/// Every state's spelling, and null for any.
fn statuses() -> Vec<Value> {
    Status::ALL.iter().map(|status| json!(status.as_str())).chain([Value::Null]).collect()
}

fn cursor() -> Value {
    json!({"type": ["string", "null"], "description": "next_cursor of the page before."})
}

fn evidence() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 512, "description": "What you saw, and where."})
}

fn signature() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": LONGEST_SIGNATURE, "pattern": "^[A-Za-z0-9._-]+$",
        "description": "Detached JWS: header..signature, base64url."})
}

fn create_properties() -> Value {
    json!({
        "order_id": {"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[A-Za-z0-9._:/#-]+$",
            "description": "Your business key for what is being paid; at most one open or executed payment per order. Case matters."},
        "amount": {"type": ["string", "number"], "description": "Exact decimal, such as \"199.00\". Never rounded; at most the currency's fraction digits."},
        "signer_id": {"type": ["string", "null"], "maxLength": 64, "description": "The signer you would like; the policy decides who is eligible."},
        "signers": {"type": ["array", "null"], "items": {"type": "string"}, "maxItems": super::agent::MOST_SIGNERS, "description": "More signers you would like."},
        "currency": {"type": ["string", "null"], "pattern": "^[A-Z]{3}$", "description": "ISO 4217 code; the configured default when absent."},
        "payee": {"type": ["string", "null"], "maxLength": 64, "pattern": "^[A-Za-z0-9._:/-]+$", "description": "The payee's account; the configured default when absent."},
        "memo": {"type": ["string", "null"], "maxLength": 256, "description": "What it is for; the signer sees it."},
        "idempotency_key": {"type": ["string", "null"], "minLength": 16, "maxLength": 255, "pattern": "^[A-Za-z0-9._:-]+$",
            "description": "The SAME key when repeating the same payment; a new key only for a new payment. Absent: the order_id is the key."},
        "supersedes": {"type": ["string", "null"], "description": "The payment_id of this order's open payment that this one replaces; it is called off in the same moment."},
        "notify": {"type": ["boolean", "null"], "description": "Also notify the signers in this call."}
    })
}

impl ToolSpec {
    /// The schema of its arguments (JSON Schema 2020-12).
    pub fn input_schema(&self) -> Map<String, Value> {
        let mut properties = into_object((self.properties)());
        if self.one_payment {
            properties.insert("order_id".to_owned(), json!({"type": ["string", "null"], "description": "The order; means its latest payment. Give this or payment_id."}));
            properties.insert(
                "payment_id".to_owned(),
                json!({"type": ["string", "null"], "description": "The payment. Give this or order_id."}),
            );
        }
        into_object(json!({
            "type": "object",
            "properties": properties,
            "required": self.required,
            "additionalProperties": false
        }))
    }

    /// The schema of its results: success or error, always an object.
    pub fn output_schema(&self) -> Map<String, Value> {
        into_object(json!({
            "type": "object",
            "properties": {
                "success": {"type": "boolean"},
                "status": {"type": "string", "description": "The payment's state, or OK for a list."},
                "order_id": {"type": "string"},
                "payment_id": {"type": "string"},
                "message": {"type": "string"},
                "next_action": {"type": "string"},
                "retry_after_ms": {"type": "integer", "minimum": 0},
                "error_code": {"type": "string"},
                "error_message": {"type": "string"},
                "category": {"type": "string"},
                "retryable": {"type": "boolean"},
                "request_id": {"type": "string"}
            },
            "required": ["success", "message"],
            "oneOf": [
                {"properties": {"success": {"const": true}}, "required": ["status"]},
                {"properties": {"success": {"const": false}}, "required": ["error_code", "error_message", "category", "retryable", "request_id"]}
            ]
        }))
    }
}

fn into_object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}
