import type { Environment } from '../programs/spawn.ts'
import type { ServerSettings } from './upstream-settings.ts'

/** The name of a command's program: `C:\\bin\\npx.cmd` → `npx`. */
export const programName = (command = ''): string =>
  (command.split(/[\\/]/).at(-1) ?? '').replace(/\.(?:cmd|exe)$/i, '')

/** Programs that download the server first; an update can take as long as the first installation. */
export const INSTALLERS = /^(?:npx|bunx|uvx|uv|pipx|pnpm|pnpx|yarn|bun|deno|npm|docker|podman|nix)$/

export function mayInstall({ target }: Pick<ServerSettings, 'target'>): boolean {
  if (target.kind !== 'stdio') return false
  const name = programName(target.command)
  // On Windows, `cmd /c npx` is common.
  const [first, second] = target.args
  return INSTALLERS.test(/^cmd$/i.test(name) && /^\/c$/i.test(first ?? '') ? programName(second) : name)
}

/** Variables for downloads: proxies and company certificates, without which a registry may be unreachable. */
const DOWNLOAD = /^(?:NODE_EXTRA_CA_CERTS|SSL_CERT_FILE|SSL_CERT_DIR|(?:HTTPS?|ALL|NO)_PROXY|npm_config_.*registry.*)$/i
/** npm's names for credentials contain the registry. */
const CREDENTIAL = /auth|token|password|username/i

/** Variables that downloads need. Other programs do not get them: NODE_EXTRA_CA_CERTS makes Node start 30 ms slower. */
export const downloadEnvironment = (ours: Environment): Environment =>
  Object.fromEntries(Object.entries(ours).filter(([name]) => DOWNLOAD.test(name) && !CREDENTIAL.test(name)))

/** stdout lines of npm, yarn, pnpm, pip, uv and docker before the server itself runs. */
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

/** True if a stdout line comes from the program that downloads the server. */
export const isInstalling = (line: string): boolean => INSTALLING.some((one) => one.test(line.trim()))
