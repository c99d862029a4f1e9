import type { ServerSettings } from './settings.ts'

/** Programs that fetch the server first; an update may take as long as the first time. */
const INSTALLERS = /^(?:npx|bunx|uvx|uv|pipx|pnpm|pnpx|yarn|bun|deno|npm|docker|podman|nix)(?:\.(?:cmd|exe))?$/

/** Whether this server may be downloading itself when it is started. */
export const mayInstall = ({ target }: ServerSettings): boolean =>
  target.kind === 'stdio' && INSTALLERS.test(target.command.split(/[\\/]/).at(-1) ?? '')
