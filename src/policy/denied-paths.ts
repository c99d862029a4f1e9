import { isAbsolute, resolve } from 'node:path'
import { compileGlob, compileGlobs, type Matcher } from './glob.ts'
import { type LookUp, realForm } from './real-path.ts'

/** A glob or a folder below a root, or an absolute path or glob. A folder also matches everything in it. */
export type PathRule =
  | string
  | { readonly rule: string /** Glob of paths to which the rule does not apply. */; readonly except: string }

/** Keys, tokens, and files that run automatically. The operator may allow one by its exact path. */
export const deniedByDefault: readonly PathRule[] = [
  '**/.env',
  { rule: '**/.env.*', except: '**/.env.{example,sample,template}' },
  '**/.ssh/**',
  '**/.gnupg/**',
  '**/.aws/**',
  '**/.kube/**',
  '**/.docker/config.json',
  '**/.netrc',
  '**/.npmrc',
  '**/.pypirc',
  '**/.git-credentials',
  '**/.git/hooks/**',
  // The files of MCP clients contain secrets, and name programs that start with the client.
  '**/claude_desktop_config.json',
  '**/{.cursor,.vscode,.claude,.codex,.gemini}/mcp.json',
  '**/.mcp.json',
  '**/.claude.json',
  '**/Code/User/mcp.json',
  '**/windsurf/mcp_config.json',
  '**/.codex/config.toml',
  '**/.gemini/settings.json',
  '**/opencode/opencode.{json,jsonc}',
  '**/zed/settings.json',
  '**/goose/config.yaml',
  '**/goose/config/config.yaml',
  '**/pegboard/mcp.config.json',
  '**/id_{rsa,dsa,ecdsa,ed25519}',
]

/** Tools may read but not write these files, because shells, editors, agents, git or sessions run what they name. */
export const protectedByDefault: readonly PathRule[] = [
  // A folder with hooks and settings, or a file that points to one.
  '**/.git',
  '**/.gitconfig',
  '**/.config/git/**',
  '**/.{bashrc,bash_profile,bash_login,bash_logout,bash_aliases,profile,zshrc,zshenv,zprofile,zlogin,envrc}',
  '**/.config/{fish,autostart}/**',
  '**/.config/systemd/user/**',
  '**/.mcp.json',
  '**/.vscode/{tasks,settings,launch,mcp}.json',
  '**/.{husky,devcontainer}/**',
  '**/.{vimrc,exrc,inputrc,tmux.conf}',
  '**/.cursor/**',
  '**/.claude/**',
  '**/.codex/**',
  '**/.gemini/**',
  '**/{.codeium,.windsurf,.zed}/**',
  '**/.config/{opencode,zed,goose}/**',
  '**/Code/User/**',
  '**/opencode.{json,jsonc}',
  // A configuration that the user confirmed is used again without a question.
  '**/mcp.config.json',
  '**/{pegboard.lock,*.pegboard.lock}.json',
]

/** Tests a path, given relative to its root and absolute, both normalized. */
export type PathTest = (below: string, absolute: string) => boolean

/** A literal folder and the glob that follows it. */
interface AbsoluteRule {
  readonly start: string
  readonly rest?: Matcher
}

/**
 * Compiles path rules. Case, Unicode normalization and invisible characters make no difference. Absolute rules are
 * matched both as written and where they really are at that moment, because real paths are compared with them and any
 * folder may be a link.
 */
export function pathRules(rules: readonly PathRule[], lookUp?: LookUp): () => Promise<PathTest> {
  const globs: string[] = []
  const withExceptions: PathTest[] = []
  const absolutes: AbsoluteRule[] = []
  for (const entry of rules) {
    const { rule, except } = typeof entry === 'string' ? { rule: entry, except: undefined } : entry
    if (rule === '') continue
    if (isAbsolute(rule)) absolutes.push(...absoluteRules(rule))
    else if (except === undefined) globs.push(andBelow(rule))
    else {
      const [matches, excepted] = [compileGlob(andBelow(rule)), compileGlob(foldPath(except))]
      withExceptions.push((below) => matches(below) && !excepted(below))
    }
  }
  const relative = compileGlobs(globs)
  return async () => {
    const forms = await Promise.all(
      absolutes.map(async ({ start, rest }) =>
        [...new Set([start, await realForm(start, lookUp)])].map((form) => ({ start: foldFolder(form), rest })),
      ),
    )
    const absoluteTests = forms.flat()
    return (below, absolute) =>
      relative(below) ||
      withExceptions.some((matches) => matches(below, absolute)) ||
      absoluteTests.some(
        ({ start, rest }) =>
          absolute.startsWith(start) &&
          (absolute.length === start.length
            ? rest === undefined
            : absolute[start.length] === '/' && (rest === undefined || rest(absolute.slice(start.length + 1)))),
      )
  }
}

/** A rule with glob characters may also be the literal name of a folder, so it counts as both. */
function absoluteRules(rule: string): AbsoluteRule[] {
  const names = rule.split(/[\\/]/)
  const wild = names.findIndex((name) => /[*?[{]/.test(name))
  const plain = { start: resolve(rule) }
  if (wild < 0) return [plain]
  const start = resolve(`${names.slice(0, wild).join('/')}/`)
  return [plain, { start, rest: compileGlob(andBelow(names.slice(wild).join('/'))) }]
}

const foldFolder = (path: string): string => foldPath(path).replace(/\/+$/, '')
/** `x/**` also matches `x`. */
const andBelow = (rule: string): string => `${foldFolder(rule)}/**`

/** Normalizes a path so that all spellings that any file system treats as equal become equal. */
export function foldPath(path: string): string {
  // Fast path: most names are ASCII, and normalizing long lists is slow.
  const plain = /^[\x20-\x7e]*$/.test(path) ? path : path.normalize('NFKC').replaceAll(/\p{Cf}/gu, '')
  return (plain.includes('\\') ? plain.replaceAll('\\', '/') : plain).toLowerCase()
}
