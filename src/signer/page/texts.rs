//! Every text of the pages, in every language; `{}` is a gap for one value.

use crate::signer::language::{Both, both};

// What frames each page.
pub(super) const FOOT: Both = both(
    "This page shows the payment document that is signed, and nothing else. It holds no key of yours.",
    "本页只显示将被签署的付款文件，别无其他内容。本页不保存您的任何密钥。",
);
pub(super) const FOOT_ENROL: Both = both(
    "What a passkey signs with stays with you. This service only learns its public half.",
    "通行密钥用于签名的部分由您自己保管，本服务只会得到它的公钥部分。",
);
pub(super) const WITHOUT_SCRIPT: Both = both(
    "Passkeys need this page's small script, which did not run. Allow scripts of this site and reload, or sign another way, below.",
    "通行密钥需要运行本页的一个小脚本，但它没有运行。请允许本站脚本后刷新，或使用下方的其他签署方式。",
);

// Headings and titles of a payment's page.
pub(super) const OPEN_HEADING: Both = both("A payment to sign", "待签署的付款");
pub(super) const OPEN_TITLE: Both = both("Sign {}", "签署 {}");
pub(super) const DECIDED_HEADING: Both = both("A payment that was decided", "已有决定的付款");
pub(super) const DECIDED_TITLE: Both = both("Decided: {}", "已决定：{}");
pub(super) const CLOSED_HEADING: Both = both("A payment that is closed", "已关闭的付款");
pub(super) const CLOSED_TITLE: Both = both("Closed: {}", "已关闭：{}");
pub(super) const EXPIRED_HEADING: Both = both("A payment that has expired", "已过期的付款");
pub(super) const EXPIRED_TITLE: Both = both("Expired: {}", "已过期：{}");

// Where it stands.
pub(super) const OPEN: Both = both(
    "This payment waits for signatures. Looking at this page decides nothing.",
    "此付款正在等待签署。查看本页不会作出任何决定。",
);
pub(super) const DECIDED: Both = both(
    "Everyone who was asked has decided. There is nothing more to do here.",
    "所有被请求的人都已作出决定，这里无需再做什么。",
);
pub(super) const EXPIRED: Both =
    both("The time to decide has passed. No signature is taken any more.", "决定的时限已过，不再接受签署。");
/// By whom, and whether by enough, is not known here: what is paid by hand is closed by this word, too.
pub(super) const CLOSED_SIGNED: Both = both(
    "This payment is approved, or already paid. No signature is taken any more.",
    "此付款已获批准，或已付款，不再接受签署。",
);
pub(super) const CLOSED_REJECTED: Both =
    both("This payment was rejected. No signature is taken any more.", "此付款已被驳回，不再接受签署。");
pub(super) const CLOSED_CANCELLED: Both =
    both("This payment was cancelled. No signature is taken any more.", "此付款已被取消，不再接受签署。");
pub(super) const CLOSED_FAILED: Both =
    both("This payment failed and was closed. No signature is taken any more.", "此付款失败并已关闭，不再接受签署。");

// What is paid.
pub(super) const WHAT: Both = both("What is paid", "付款内容");
pub(super) const ASKS: Both = both("asks you to approve a payment of", "请您批准以下付款：");
pub(super) const SOMEBODY: Both = both("An agent", "某个代理程序");
pub(super) const ON_BEHALF: Both = both(", for {},", "（代表 {}）");
pub(super) const TO_ACCOUNT: Both = both("To account", "收款账户");
pub(super) const TO_VERIFIED: Both =
    both("To (verified: the known payee of this account)", "收款人（已核实：此账户的已知收款人）");
pub(super) const TO_UNVERIFIED: Both = both("To (not verified)", "收款人（未核实）");
pub(super) const NO_PAYEE: Both =
    both("no name: this account is not on the list of known payees", "无姓名：此账户不在已知收款人名单上");
pub(super) const ORDER: Both = both("Order", "订单");
pub(super) const PURPOSE: Both = both("Purpose", "用途");
pub(super) const UNTIL: Both = both("Decide until", "决定截止时间");
pub(super) const COMPARE: Both = both("Compare code", "核对码");
pub(super) const COMPARE_WHY: Both = both(
    "Every signer sees the same code. If yours differs from another signer's or from what your own device shows, do not sign.",
    "每位签署人看到的核对码相同。如果您看到的与其他签署人或您自己设备上的不同，请勿签署。",
);
pub(super) const QR: Both = both("QR code with the address of this page", "本页地址的二维码");
pub(super) const QR_WHY: Both = both("Open this page on your phone", "在手机上打开本页");
pub(super) const MORE: Both = both("More about it", "更多信息");
pub(super) const FROM_ACCOUNT: Both = both("From account", "付款账户");
pub(super) const RULE: Both = both("Signatures needed", "所需签署");
pub(super) const REQUESTED_BY: Both = both("Requested by", "请求者");
pub(super) const FOR_PERSON: Both = both("On behalf of", "代表");
pub(super) const DIGEST: Both = both("Payment digest", "付款摘要值");
pub(super) const FIELDS: Both = both("The payment document, field by field", "付款文件的各个字段");
pub(super) const EXACT: Both = both("The exact text", "原文");
pub(super) const DOCUMENT: Both = both("The payment document", "付款文件");
pub(super) const NONE: Both = both("(none)", "（无）");

// Who signs.
pub(super) const WHO: Both = both("Who may sign, and who has", "谁可签署，谁已签署");
pub(super) const APPROVED: Both = both("Approved", "已批准");
pub(super) const REJECTED: Both = both("Rejected", "已驳回");
pub(super) const RECORDED_AT: Both = both(", recorded at ", "，记录于 ");
pub(super) const REASON_WAS: Both = both("Reason: ", "理由：");
pub(super) const UNDECIDED: Both = both("No decision.", "未作决定。");
pub(super) const WAITING: Both = both("No decision yet.", "尚未决定。");
pub(super) const PASSED_ON: Both = both(
    "A decision in this name was received and passed on. This service has no key to check it; the payment desk does.",
    "已收到以此人名义作出的决定并已转交。本服务没有可用来验证的密钥，付款服务台会验证。",
);
pub(super) const CONFIRM: Both = both(
    "One confirmation is missing: the rule asks for this approval with two keys. Confirm it with another passkey, on another device.",
    "还缺一次确认：规则要求以两把密钥批准。请在另一台设备上使用另一个通行密钥确认。",
);
pub(super) const UNCONFIRMED: Both = both("It was not confirmed with a second key.", "未经第二把密钥确认。");
pub(super) const SIGN_AS: Both = both("Sign as {}", "以 {} 的身份签署");
pub(super) const SIGN_UNTIL: Both = both("Sign until ", "签署截止时间：");

// Signing with a passkey.
pub(super) const APPROVE_WITH_PASSKEY: Both = both("Approve with passkey", "用通行密钥批准");
pub(super) const REJECT: Both = both("Reject", "驳回");
pub(super) const REJECT_WITH_PASSKEY: Both = both("Reject with passkey", "用通行密钥驳回");
pub(super) const REJECT_WHY: Both = both("Why? Your reason is signed too.", "为什么？您的理由也会一并签署。");
pub(super) const PASSKEYS: Both = both("Passkeys that count: {}", "有效的通行密钥：{}");
pub(super) const NO_OTHER_PASSKEY: Both = both(
    "No other passkey of this person counts yet. Ask your operator for an invitation, and make one on another device.",
    "此人尚无其他有效的通行密钥。请向管理员索取邀请，并在另一台设备上创建一个。",
);
pub(super) const NO_PASSKEY: Both = both(
    "No passkey of this person counts yet. Ask your operator for an invitation to make one, or sign another way, below.",
    "此人尚无有效的通行密钥。请向管理员索取邀请来创建一个，或使用下方的其他签署方式。",
);

// Signing another way.
pub(super) const OTHER_WAY: Both = both("Sign another way: command or detached JWS", "其他签署方式：命令或分离式 JWS");
pub(super) const COMMAND: Both =
    both("The short way is the command, with your own key:", "简便方式是用您自己的密钥运行命令：");
pub(super) const SAY: Both = both("What you want to say", "您要表达的内容");
pub(super) const DECISION: Both = both("Decision", "决定");
pub(super) const CHOOSE_APPROVE: Both = both("approve", "批准");
pub(super) const CHOOSE_REJECT: Both = both("reject", "驳回");
pub(super) const REASON_OPTIONAL: Both = both("Reason (optional; it is signed too)", "理由（可选，也会一并签署）");
pub(super) const KEY_ID: Both = both("Key id", "密钥编号");
pub(super) const SHOW_TEXT: Both = both("Show the text to sign", "显示待签署的文本");
pub(super) const SIGN_EXACTLY: Both = both(
    "To {}, sign exactly this text (no line end) as a detached JWS. Its header:",
    "要{}，请将以下文本（末尾不含换行）原样签署为分离式 JWS，其头部为：",
);
pub(super) const TEXT_TO_SIGN: Both = both("The text to sign", "待签署的文本");
pub(super) const DIGEST_OF_TEXT: Both = both("Digest of this text", "此文本的摘要值");
pub(super) const JWS: Both = both("Detached JWS", "分离式 JWS");
pub(super) const APPROVE: Both = both("Approve", "批准");
pub(super) const NO_KEY: Both = both(
    "This service does not know a key of yours. Enter your key id to see the text to sign.",
    "本服务不知道您的任何密钥。请输入密钥编号以显示待签署的文本。",
);
pub(in crate::signer) const BAD_DECISION: Both =
    both("The decision must be approve or reject.", "决定必须是批准或驳回。");
pub(in crate::signer) const BAD_KEY_ID: Both = both(
    "The key id can't be used: it has 1 to 64 of A-Z a-z 0-9 and ._:-",
    "密钥编号不可用：应为 1 至 64 个字符，仅限 A-Z a-z 0-9 和 ._:-",
);
pub(in crate::signer) const BAD_REASON: Both = both(
    "The reason was left out: it must be one line of at most 512 plain characters.",
    "理由已被略去：必须是一行，最多 512 个普通字符。",
);

// What the script says.
pub(super) const SAY_UNSUPPORTED: Both = both(
    "This browser can't use passkeys here. Open the page in another browser or on your phone, or sign another way, below.",
    "此浏览器无法在此使用通行密钥。请用其他浏览器或手机打开本页，或使用下方的其他签署方式。",
);
pub(super) const SAY_WORKING: Both = both("Your device asks you to confirm it.", "请在您的设备上确认。");
pub(super) const SAY_SENDING: Both = both("Sending it.", "正在发送。");
pub(super) const SAY_CANCELLED: Both = both(
    "No passkey was used, so nothing was decided. Either you cancelled, it took too long, or none of the passkeys that count is on this device. You can try again.",
    "没有使用任何通行密钥，因此未作出任何决定。可能是您取消了操作、等待超时，或此设备上没有有效的通行密钥。您可以重试。",
);
pub(super) const SAY_REFUSED: Both = both(
    "Your browser refused to use a passkey at this address. Nothing was decided. Open the page from the link you were sent.",
    "您的浏览器拒绝在此地址使用通行密钥。未作出任何决定。请通过发给您的链接打开本页。",
);
pub(super) const SAY_UNSENT: Both = both(
    "It could not be sent, or no answer came. Check your connection and reload this page: it says what was recorded.",
    "未能发送，或没有收到答复。请检查网络并刷新本页，页面会显示已记录的内容。",
);
pub(super) const SAY_TWICE: Both = both(
    "This device holds such a passkey of yours already. Use another device for another passkey.",
    "此设备上已有您的这种通行密钥。如需另一个，请使用其他设备。",
);
pub(super) const SAY_NOT_MADE: Both = both(
    "No passkey was made. Either you cancelled, it took too long, or this device has none to offer. You can try again.",
    "没有创建通行密钥。可能是您取消了操作、等待超时，或此设备无法提供。您可以重试。",
);
