# Countersign in a small image: a fixed user without rights, nothing written outside /data and /checkpoints, health by
# the program itself.
#
#   docker build -t countersign .                        builds from source
#   docker build -t countersign --target prebuilt .      takes dist/countersign, a binary built for this base before

FROM docker.io/library/rust:1.95-slim-bookworm AS build
WORKDIR /src
# The dependencies, beside an empty program: this layer changes only when they do.
COPY Cargo.toml Cargo.lock ./
RUN mkdir src \
 && echo 'fn main() {}' > src/main.rs \
 && touch src/lib.rs \
 && cargo build --release --locked --lib --bins \
 && rm -r src
COPY build.rs ./
COPY config config
COPY migrations migrations
COPY src src
# COPY keeps the files' times, which are older than the empty program's.
RUN touch src/main.rs src/lib.rs \
 && cargo build --release --locked --lib --bins

FROM docker.io/library/debian:bookworm-slim AS base
# The newest certificate authorities of the release are wanted, not some fixed ones.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --gid 65532 countersign \
 && useradd --uid 65532 --gid 65532 --no-create-home --home-dir /data --shell /usr/sbin/nologin countersign \
 && install -d -o 65532 -g 65532 -m 0700 /data /checkpoints /secrets/gateway /secrets/signer /secrets/rail /secrets/people \
 && install -d -o 65532 -g 65532 -m 0755 /secrets/db
LABEL org.opencontainers.image.title="countersign" \
      org.opencontainers.image.description="The payment desk for AI agents: an agent proposes, a person countersigns, the money moves once."
# In a container loopback reaches nobody. COUNTERSIGN_HEALTH_URL: see HEALTHCHECK.
ENV COUNTERSIGN__SERVER__LISTEN=0.0.0.0:8080 \
    COUNTERSIGN_SIGNER_LISTEN=0.0.0.0:8081 \
    COUNTERSIGN_SANDBOX_LISTEN=0.0.0.0:8082
WORKDIR /data
USER 65532:65532
EXPOSE 8080 8081 8082
# The gateway's readiness; another command names its own page in COUNTERSIGN_HEALTH_URL.
HEALTHCHECK --interval=10s --timeout=5s --start-period=15s --retries=3 CMD ["countersign", "health"]
ENTRYPOINT ["countersign"]
CMD ["serve"]

FROM base AS prebuilt
COPY --chmod=0755 dist/countersign /usr/local/bin/countersign

FROM base AS release
COPY --from=build --chmod=0755 /src/target/release/countersign /usr/local/bin/countersign
