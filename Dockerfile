# The image of the executor: one static program and the root certificates, without a shell, for amd64 and arm64.
#
#   docker buildx build --platform linux/amd64,linux/arm64 \
#     --build-arg AILERON_COMMIT="$(git rev-parse HEAD)" \
#     --build-arg SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)" \
#     --tag registry.example.org/aileron:0.1.0 --push .
#
# `make image` writes the same image without an engine: it reads the last stage of this file. docs/install.md#an-image says how
# to pin the first image by digest, and how two builds give the same image.
ARG RUST_IMAGE=docker.io/library/rust:1.95.0-slim-bookworm

# Built on the platform that the image is for, because the static C library comes from this image and from nowhere else.
FROM ${RUST_IMAGE} AS build
ARG AILERON_COMMIT=unknown
ARG SOURCE_DATE_EPOCH=0
# The compiler of the image, as it is: rust-toolchain.toml would add components that are not needed here.
ENV RUSTUP_TOOLCHAIN=1.95.0
WORKDIR /source
COPY . .
RUN deploy/image/build host /out/aileron

FROM scratch
ARG AILERON_COMMIT=unknown
ARG AILERON_SOURCE=
LABEL org.opencontainers.image.title="aileron" \
      org.opencontainers.image.description="Flyte's task executor for Kubernetes" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.revision="${AILERON_COMMIT}" \
      org.opencontainers.image.source="${AILERON_SOURCE}" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/aileron /aileron
# A number, so that Kubernetes can check `runAsNonRoot`. It is the user of the chart.
USER 65532:65532
ENTRYPOINT ["/aileron"]
CMD ["run"]
