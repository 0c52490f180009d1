//! What an auditor finds at the end of a test: the audit whole, and no payment's evidence at odds with itself.

use countersign::journal::verify::verify_audit;
use countersign::proof::{Trust, Verdict, verify};

use super::app::App;

/// Holds that the default tenant's audit is whole, and that nothing fails of any payment's evidence.
pub(crate) async fn is_whole(app: &App) {
    assert_eq!(verify_audit(app.db.store(), "default", None, &mut |_, _| {}).await.unwrap().breaks, []);
    let ids = "SELECT payment_id FROM payments WHERE tenant = 'default' ORDER BY payment_id";
    for id in app.db.raw().await.texts(ids).await {
        let url = format!("{}/payments/{id}/evidence", app.config.server.public_url);
        let answer = app.http.get(url).bearer_auth(app.auditor()).send().await.unwrap();
        let text = answer.text().await.unwrap();
        for checked in verify(text.as_bytes(), &Trust::default()).steps {
            assert_ne!(checked.verdict, Verdict::Failed, "{id} {}: {:?}: {text}", checked.step.as_str(), checked.why);
        }
    }
}
