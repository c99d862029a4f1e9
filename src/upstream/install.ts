import type { Environment } from '../programs/spawn.ts'
import type { ServerSettings } from './settings.ts'

/** Programs that fetch the server first; an update may take as long as the first time. */
const INSTALLERS = /^(?:npx|bunx|uvx|uv|pipx|pnpm|pnpx|yarn|bun|deno|npm|docker|podman|nix)(?:\.(?:cmd|exe))?$/

/** Whether this server may be downloading itself when it is started. */
export function mayInstall({ target }: Pick<ServerSettings, 'target'>): boolean {
  if (target.kind !== 'stdio') return false
  const nameOf = (command = ''): string => command.split(/[\\/]/).at(-1) ?? ''
  const name = nameOf(target.command)
  // On Windows many write `cmd /c npx`.
  const [first, second] = target.args
  return INSTALLERS.test(/^cmd(?:\.exe)?$/i.test(name) && /^\/c$/i.test(first ?? '') ? nameOf(second) : name)
}

/** Where and through what a program downloads. Behind a proxy or a certificate of a company nothing else reaches a registry. */
const DOWNLOAD = /^(?:NODE_EXTRA_CA_CERTS|SSL_CERT_FILE|SSL_CERT_DIR|(?:HTTPS?|ALL|NO)_PROXY|npm_config_.*registry.*)$/i
/** npm keeps credentials under names that have the registry in them. */
const CREDENTIAL = /auth|token|password|username/i

/** Those of our variables that programs need to download packages. Others do without: Node takes 30 ms longer to start with NODE_EXTRA_CA_CERTS. */
export const downloadEnvironment = (ours: Environment): Environment =>
  Object.fromEntries(Object.entries(ours).filter(([name]) => DOWNLOAD.test(name) && !CREDENTIAL.test(name)))

/** Lines of npm, yarn, pnpm, pip, uv and docker on stdout, before the program that they start takes it over. */
const INSTALLING = [
  /^> \S/,
  /^\$ \S/,
  /^➤ YN\d{4}:/,
  /^\[\d\/\d\] \w/,
  /^(?:yarn run|bun install|pnpm install) v\d/,
  /^(?:added|removed|changed|audited) \d+ packages?\b/,
  /^up to date\b/,
  /^found \d+ vulnerabilities/,
  /^\d+ packages? (?:is|are) looking for funding/,
  /^run `npm /,
  /^Need to install the following packages:/,
  /^Ok to proceed\?/,
  /^(?:Progress: resolved|Packages: [+-])\s?\d/,
  /^(?:Resolved|Prepared|Installed|Downloaded|Audited) \d+ packages? in \d/,
  /^(?:Collecting|Using cached|Downloading) [\w.-]+(?:[=<>~!].*|\.(?:whl|tar\.gz|tgz)\b.*)?$/,
  /^(?:Installing collected packages|Requirement already satisfied): /,
  /^Successfully installed \S/,
  /^[\w.-]+: (?:Pulling|Waiting|Downloading|Verifying Checksum|Download complete|Extracting|Pull complete|Already exists)/,
  /^Digest: sha256:/,
  /^Status: (?:Downloaded|Image is up to date)/,
]

/** Whether a line on stdout is what a program says that fetches the server, and not the server itself. */
export const isInstalling = (line: string): boolean => INSTALLING.some((one) => one.test(line.trim()))
