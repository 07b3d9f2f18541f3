# The webhook reconciler as a container image: `docker build -t webhook-reconciler .`, or podman or buildah (docs/operations.md)

# What the stages build on, by its digest: the same files whenever it is built.
ARG BASE=docker.io/library/node:26.10.0-slim
ARG BASE_DIGEST=sha256:930557a230abacbc3f4fd9b8648abf8f4bee1e17cb72195dcdfb2f709bc85b33
# Of the image's own architecture, where a mirror has one base for each: `docker build --platform linux/arm64 .` needs it only there.
ARG TARGET_BASE_DIGEST=${BASE_DIGEST}

# Where everything runs that a build runs: on the builder's own architecture, whatever the image is for.
FROM --platform=$BUILDPLATFORM ${BASE}@${BASE_DIGEST} AS base
WORKDIR /app

# The same of the image's architecture: files are copied from it, and nothing of it runs.
FROM ${BASE}@${TARGET_BASE_DIGEST} AS target

# Packages come from the registry that NPM_CONFIG_REGISTRY names, or from a folder: `--build-context npm-cache=FOLDER`.
FROM scratch AS npm-cache

FROM base AS build
ARG NPM_CONFIG_REGISTRY=https://registry.npmjs.org/
COPY package.json package-lock.json .npmrc ./
# Without scripts: nothing of the dependencies runs here, and our own `prepare` would come before the sources are there.
RUN --mount=type=bind,from=npm-cache,target=/npm-cache,rw \
    npm ci --ignore-scripts --cache /npm-cache --prefer-offline
COPY tools/bundle ./tools/bundle
COPY src ./src
RUN node tools/bundle/main.ts

# The program as the image has it: an interpreter line without `env`, which the image lacks, and its name on PATH for
# `kubectl exec`. Node's compile cache saves CPU time with each start. Node has one for each user, and lets only this user read
# it; it is of one architecture. Without a configuration `run` loads all of the program, and ends with 78. V8's random numbers
# are in the cache: with a seed each build writes the same.
FROM build AS compiled
ARG BUILDARCH
ARG TARGETARCH
RUN sed -i '1s|/usr/bin/env -S node|/usr/local/bin/node|' dist/main.cjs && \
    mkdir dist/cache bin && chown 1000:1000 dist/cache && ln -s ../../../app/dist/main.cjs bin/webhook-reconciler
USER 1000:1000
RUN [ "$BUILDARCH" != "$TARGETARCH" ] || \
    { node --random-seed=1 --disable-sigusr1 dist/main.cjs run >/dev/null; test $? -eq 78 && chmod -R a+rX dist/cache; }

# The emulated platform, for trying things out: `docker build --target sandbox .`. It makes its keys in /data.
FROM build AS sandbox-files
COPY tools ./tools
COPY sandbox ./sandbox
RUN mkdir /data && chown 1000:1000 /data

FROM target AS sandbox
COPY --from=sandbox-files /app /app
COPY --from=sandbox-files --chown=1000:1000 /data /data
WORKDIR /data
USER 1000:1000
EXPOSE 8090 8091 8092
ENTRYPOINT ["node", "/app/sandbox/main.ts"]

# What the program needs of the base: Node without its debugging symbols, the libraries that Node loads, the licences of all
# these, and the list by which scanners know the versions.
FROM base AS runtime
# Named here, so that no cache of layers takes the files of one base for those of another.
ARG TARGETARCH
ARG TARGET_BASE_DIGEST
COPY tools/image-files.ts ./
RUN --mount=type=bind,from=target,target=/target node image-files.ts /target /runtime

# How the program is started, whatever lies around it.
FROM scratch AS settings
ARG BASE
ARG TARGET_BASE_DIGEST
ARG VERSION=0.2.0
ARG REVISION=unknown
ARG SOURCE=unknown
ARG CREATED=unknown
LABEL org.opencontainers.image.title="webhook-reconciler" \
      org.opencontainers.image.description="Finds webhook deliveries that failed and has the platform send them again at a gentle pace" \
      org.opencontainers.image.licenses="LicenseRef-All-rights-reserved" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.base.name="${BASE}" \
      org.opencontainers.image.base.digest="${TARGET_BASE_DIGEST}"
# Without the percentage V8 takes the same heap limit in every container of 64 to 256 MiB. Some 80 MiB are not heap: Node's
# own code, buffers, threads. Where the heap leaves less, the kernel drops that code and reads it back without end.
ENV PATH=/usr/local/bin:/usr/bin:/bin \
    NODE_ENV=production \
    NODE_OPTIONS=--max-old-space-size-percentage=40
# The base's user `node`, by number, so that Kubernetes can see that it is not root. It owns nothing here and writes nothing.
USER 1000:1000
EXPOSE 10964
STOPSIGNAL SIGTERM
# Asks on server.host and server.port: name the configuration file by RECONCILER_CONFIG, so that this command knows it too.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 CMD ["webhook-reconciler", "healthcheck"]
ENTRYPOINT ["webhook-reconciler"]
# Other commands take its place: `docker run webhook-reconciler run --once`.
CMD ["run"]

# With the shell and all else of the base, to look around in: `docker build --target debug .`
FROM settings AS debug
COPY --from=target / /
COPY --from=compiled --chown=0:0 /app/dist /app/dist
# The folder, as COPY of the link alone would copy the file that it leads to.
COPY --from=compiled /app/bin /usr/local/bin

# The last stage, and so the one that is built without --target: the program and nothing else.
FROM settings
COPY --from=runtime /runtime /
COPY --from=compiled --chown=0:0 /app/dist /app/dist
COPY --from=compiled /app/bin /usr/local/bin
