//! Three doors for machines: `/healthz` (the process lives), `/readyz` (it may take work; says which part is away) and
//! `/metrics` (Prometheus).

use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio_util::sync::CancellationToken;

use crate::platform::health::Health;

/// Histograms are folded this often; otherwise they would grow between scrapes.
const UPKEEP: Duration = Duration::from_secs(5);

pub async fn serve(
    listener: tokio::net::TcpListener,
    metrics: PrometheusHandle,
    health: Health,
    stop: &CancellationToken,
) {
    let rendered = metrics.clone();
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(move || async move { ready(&health) }))
        .route(
            "/metrics",
            get(move || async move { ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], rendered.render()) }),
        );
    let served = axum::serve(listener, router).with_graceful_shutdown(stop.clone().cancelled_owned());
    let upkeep = async {
        loop {
            tokio::time::sleep(UPKEEP).await;
            metrics.run_upkeep();
        }
    };
    tokio::select! {
        result = served.into_future() => {
            if let Err(error) = result {
                tracing::error!(error = %error, "the HTTP server failed");
            }
        }
        () = upkeep => {}
    }
}

fn ready(health: &Health) -> impl IntoResponse + use<> {
    let parts: serde_json::Map<_, _> =
        health.report().into_iter().map(|(part, state)| (part.to_owned(), state.into())).collect();
    let ready = health.is_ready();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let since: serde_json::Map<_, _> =
        health.away_since().into_iter().map(|(part, since)| (part.to_owned(), since.to_rfc3339().into())).collect();
    let body = serde_json::json!({ "ready": ready, "parts": parts, "since": since }).to_string();
    (status, [(header::CONTENT_TYPE, "application/json")], body + "\n")
}
