import { isAbsolute, resolve } from 'node:path'
import { compileGlob, compileGlobs, type Matcher } from './glob.ts'
import { type LookUp, realForm } from './real.ts'

/** A glob below a root, a folder below a root (and all in it), or an absolute path or glob (and all in it). */
export type PathRule =
  | string
  | { readonly rule: string /** A glob: paths the rule is not about. */; readonly except: string }

/** Never read, written or listed: keys, tokens, and what runs by itself. The operator may allow one by its exact path. */
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
  '**/claude_desktop_config.json',
  '**/{.cursor,.vscode,.claude,.codex,.gemini}/mcp.json',
  '**/.mcp.json',
  '**/id_{rsa,dsa,ecdsa,ed25519}',
]

/** Read, but never written: files that make shells, editors, agents, git and sessions do things. */
export const protectedByDefault: readonly PathRule[] = [
  // A folder with hooks and settings, or a file that says where such a folder is.
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
]

/** Whether a path is meant: as seen from its root, and whole, both folded. */
export type PathTest = (below: string, absolute: string) => boolean

/** A plain part, and the glob that follows it. */
interface AbsoluteRule {
  readonly start: string
  readonly rest?: Matcher
}

/**
 * Compiles rules on paths. Case, Unicode forms and invisible characters make no difference. The test that comes back
 * knows absolute rules under the path as given and under the place it really is at that moment: what was really opened
 * is compared with them, and a folder on the way may be a link.
 */
export function pathRules(rules: readonly PathRule[], look?: LookUp): () => Promise<PathTest> {
  const globs: string[] = []
  const limited: PathTest[] = []
  const absolutes: AbsoluteRule[] = []
  for (const entry of rules) {
    const { rule, except } = typeof entry === 'string' ? { rule: entry, except: undefined } : entry
    if (rule === '') continue
    if (isAbsolute(rule)) absolutes.push(...absoluteRules(rule))
    else if (except === undefined) globs.push(andBelow(rule))
    else {
      const [fits, excepted] = [compileGlob(andBelow(rule)), compileGlob(foldPath(except))]
      limited.push((below) => fits(below) && !excepted(below))
    }
  }
  const relative = compileGlobs(globs)
  return async () => {
    const forms = await Promise.all(
      absolutes.map(async ({ start, rest }) =>
        [...new Set([start, await realForm(start, look)])].map((form) => ({ start: bare(form), rest })),
      ),
    )
    const places = forms.flat()
    return (below, absolute) =>
      relative(below) ||
      limited.some((fits) => fits(below, absolute)) ||
      places.some(
        ({ start, rest }) =>
          absolute.startsWith(start) &&
          (absolute.length === start.length
            ? rest === undefined
            : absolute[start.length] === '/' && (rest === undefined || rest(absolute.slice(start.length + 1)))),
      )
  }
}

/** A rule that looks like a glob may be the plain name of a folder all the same: it is taken as both. */
function absoluteRules(rule: string): AbsoluteRule[] {
  const names = rule.split(/[\\/]/)
  const wild = names.findIndex((name) => /[*?[{]/.test(name))
  const plain = { start: resolve(rule) }
  if (wild < 0) return [plain]
  const start = resolve(`${names.slice(0, wild).join('/')}/`)
  return [plain, { start, rest: compileGlob(andBelow(names.slice(wild).join('/'))) }]
}

const bare = (path: string): string => foldPath(path).replace(/\/+$/, '')
/** `x/**` fits `x`, too. */
const andBelow = (rule: string): string => `${bare(rule)}/**`

/** What different spellings of one name have in common on any file system. */
export function foldPath(path: string): string {
  // Most names are plain, and normalising a long list of them takes its time.
  const plain = /^[\x20-\x7e]*$/.test(path) ? path : path.normalize('NFKC').replaceAll(/\p{Cf}/gu, '')
  return (plain.includes('\\') ? plain.replaceAll('\\', '/') : plain).toLowerCase()
}
