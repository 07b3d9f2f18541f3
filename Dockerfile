# The webhook reconciler as a container image: `docker build -t webhook-reconciler .`, or podman or buildah (docs/operations.md)

# The base of all stages; for a build that can be repeated name it by its digest: --build-arg BASE=node@sha256:...
ARG BASE=docker.io/library/node:26.10.0-slim

FROM ${BASE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# Without scripts: nothing of the dependencies runs here, and our own `prepare` would come before the sources are there.
RUN npm ci --ignore-scripts
COPY tools/bundle ./tools/bundle
COPY src ./src
RUN node tools/bundle/main.ts
# For `kubectl exec`: the program by its name, where PATH finds it. The link is made for /usr/local/bin, and relative.
RUN mkdir bin && ln -s ../../../app/dist/main.cjs bin/webhook-reconciler

# Node's compile cache of the program, which saves CPU time with each start. Node has one for each user. Without a configuration
# `run` loads all of the program, and ends with 78.
FROM build AS compiled
RUN mkdir dist/cache && chown 1000:1000 dist/cache
USER 1000:1000
RUN node dist/main.cjs run >/dev/null; test $? -eq 78

# The emulated platform, for trying things out: `docker build --target sandbox .`. It makes its keys in /data.
FROM build AS sandbox
COPY tools ./tools
COPY sandbox ./sandbox
RUN mkdir /data && chown 1000:1000 /data
WORKDIR /data
USER 1000:1000
EXPOSE 8090 8091 8092
ENTRYPOINT ["node", "/app/sandbox/main.ts"]

# The last stage, and so the one that is built without --target: the program.
FROM ${BASE}
ARG BASE
ARG VERSION=0.2.0
ARG REVISION=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="webhook-reconciler" \
      org.opencontainers.image.description="Finds webhook deliveries that failed and has the platform send them again at a gentle pace" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.base.name="${BASE}"
# Without the percentage V8 takes the same heap limit in every container of 64 to 256 MiB. Some 80 MiB are not heap: Node's
# own code, buffers, threads. Where the heap leaves less, the kernel drops that code and reads it back without end.
ENV NODE_ENV=production \
    NODE_OPTIONS="--max-old-space-size-percentage=40 --disable-sigusr1"
WORKDIR /app
COPY --from=compiled /app/dist ./dist
# The folder, as COPY of the link alone would copy the file that it leads to.
COPY --from=build /app/bin /usr/local/bin
# The image's user `node`, by number, so that Kubernetes can see that it is not root. It owns nothing here and writes nothing.
USER 1000:1000
EXPOSE 10964
STOPSIGNAL SIGTERM
# Asks on server.host and server.port: name the configuration file by RECONCILER_CONFIG, so that this command knows it too.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 CMD ["node", "/app/dist/main.cjs", "healthcheck"]
ENTRYPOINT ["node", "/app/dist/main.cjs"]
# Other commands take its place: `docker run webhook-reconciler once`.
CMD ["run"]
