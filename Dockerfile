# docker build -t pegboard . ; see docs/guides/install.md.
FROM node:24-bookworm-slim AS build
WORKDIR /src
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY . .
RUN npm run build \
  && npm run sbom \
  && npm pack --ignore-scripts --pack-destination /tmp \
  && npm install --prefix /app --omit=dev --ignore-scripts --no-audit --no-fund /tmp/pegboard-*.tgz

FROM node:24-bookworm-slim
ENV NODE_ENV=production PEGBOARD_STATE_DIR=/var/lib/pegboard
RUN install -d -o node -g node -m 0700 /var/lib/pegboard
COPY --from=build /app/node_modules /app/node_modules
USER node
WORKDIR /var/lib/pegboard
VOLUME ["/var/lib/pegboard"]
EXPOSE 3333
HEALTHCHECK --interval=30s --timeout=5s CMD ["node", "-e", "fetch('http://127.0.0.1:3333/ready').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "/app/node_modules/pegboard/dist/cli/main.js"]
CMD ["serve", "--http", "--host", "0.0.0.0", "--config", "/etc/pegboard/mcp.config.json"]
