//! What an auditor finds at the end of a test: the audit whole, and no payment's evidence at odds with itself.

use countersign::journal::verify::verify_audit;
use countersign::proof::{Trust, Verdict, verify};

use super::app::App;

impl App {
    /// Holds that the default tenant's audit is whole, and that nothing fails of any payment's evidence.
    pub(crate) async fn whole(&self) {
        assert_eq!(verify_audit(self.db.store(), "default", None, &mut |_, _| {}).await.unwrap().breaks, []);
        self.evidence_holds().await;
    }

    /// Holds that nothing fails of any payment's evidence.
    pub(crate) async fn evidence_holds(&self) {
        let ids = "SELECT payment_id FROM payments WHERE tenant = 'default' ORDER BY payment_id";
        for id in self.db.raw().await.texts(ids).await {
            let url = format!("{}/payments/{id}/evidence", self.config.server.public_url);
            let answer = self.http.get(url).bearer_auth(self.auditor()).send().await.unwrap();
            let text = answer.text().await.unwrap();
            for checked in verify(text.as_bytes(), &Trust::default()).steps {
                assert_ne!(
                    checked.verdict,
                    Verdict::Failed,
                    "{id} {}: {:?}: {text}",
                    checked.step.as_str(),
                    checked.why
                );
            }
        }
    }
}
