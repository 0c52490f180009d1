//! Sign links as an agent passes them on: a text, and an image by its address.

use qrcode::render::svg;
use qrcode::{EcLevel, QrCode};
use reqwest::header::CONTENT_TYPE;
use serde_json::json;

use crate::harness::app::{App, Wishes, each_with};

/// The modules of a QR code, row by row, as an image of ours draws them: one square a path's step.
fn drawn(image: &str) -> Vec<(u32, u32)> {
    let (_, path) = image.split_once(" d=\"").unwrap();
    let path = path.split('"').next().unwrap();
    let squares = path.split('M').skip(1);
    let place = |text: &str| -> (u32, u32) {
        let (x, rest) = text.split_once(' ').unwrap();
        let y: String = rest.chars().take_while(char::is_ascii_digit).collect();
        (x.parse().unwrap(), y.parse().unwrap())
    };
    squares.map(place).collect()
}

#[tokio::test]
async fn an_agent_passes_on_the_pages_address_and_where_its_image_is_and_never_the_image() {
    each_with(Wishes::default().patient(), async |app: &mut App| {
        app.awaiting("order-1").await;
        let told = app.call(&app.agent(), "get_sign_link", json!({"order_id": "order-1"})).await;
        let (page, image) = (told.text("sign_url").to_owned(), told.text("qr_image_url").to_owned());
        let whole = told.body.to_string();
        assert!(whole.len() < 1024 && !whole.contains("svg xmlns") && !whole.contains("data:"), "{whole}");
        assert_eq!(app.http.get(&page).send().await.unwrap().status(), 200);
        let answer = app.http.get(&image).send().await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()[CONTENT_TYPE]),
            (200, &"image/svg+xml".parse().unwrap())
        );
        let answer = answer.text().await.unwrap();
        let code = QrCode::with_error_correction_level(&page, EcLevel::M).unwrap();
        assert_eq!(answer, code.render::<svg::Color<'_>>().min_dimensions(256, 256).build(), "of this very address");
        // What is drawn, square by square, is the code with a quiet zone of four modules around it.
        let width = u32::try_from(code.width()).unwrap();
        let dark = code.to_colors().into_iter().enumerate().filter(|(_, color)| *color == qrcode::Color::Dark);
        let dark: Vec<(u32, u32)> =
            dark.map(|(at, _)| u32::try_from(at).unwrap()).map(|at| (at % width, at / width)).collect();
        let squares = drawn(&answer);
        let side =
            squares[1..].iter().filter(|(_, y)| *y == squares[0].1).map(|(x, _)| x - squares[0].0).min().unwrap();
        let read: Vec<(u32, u32)> = squares.iter().map(|(x, y)| (x / side - 4, y / side - 4)).collect();
        assert_eq!(read, dark);

        // Another link is another image; one that has lapsed is none.
        let again = app.call(&app.agent(), "get_sign_link", json!({"order_id": "order-1"})).await;
        assert_ne!(again.text("sign_url"), page);
        let other = app.http.get(again.text("qr_image_url")).send().await.unwrap().text().await.unwrap();
        assert_ne!(other, answer);
        app.clock.advance(16 * 60_000_000);
        assert_eq!(app.http.get(&image).send().await.unwrap().status(), 410);
    })
    .await;
}
