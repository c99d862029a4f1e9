import { isAbsolute } from 'node:path'
import { compileGlob, type Matcher } from './glob.ts'

/** Never read, written or listed: keys, tokens, and what runs by itself. The operator may allow one by its exact path. */
export const deniedByDefault: readonly string[] = [
  '**/.env',
  '**/.env.{local,development,production,staging,test}{,.local}',
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

/** Read, but never written: files that make shells, editors and agents do things. */
export const protectedByDefault: readonly string[] = [
  '**/.git/config',
  '**/.{bashrc,bash_profile,bash_login,bash_logout,profile,zshrc,zshenv,zprofile,zlogin}',
  '**/.config/fish/**',
  '**/.mcp.json',
  '**/.vscode/{tasks,settings,launch,mcp}.json',
  '**/.cursor/**',
  '**/.claude/**',
  '**/.codex/**',
  '**/.gemini/**',
]

/**
 * Compiles rules on paths. A rule is a glob below a root, a folder below a root (and all in it), or an absolute path
 * (and all in it). Case, Unicode forms and invisible characters make no difference.
 */
export function pathRules(rules: readonly string[]): (below: string, absolute: string) => boolean {
  const relative: Matcher[] = []
  const absolutes: Matcher[] = []
  for (const rule of rules) {
    if (rule === '') continue
    const list = isAbsolute(rule) ? absolutes : relative
    const plain = foldPath(rule).replace(/\/+$/, '')
    list.push(compileGlob(plain), compileGlob(`${plain}/**`))
  }
  return (below, absolute) => {
    const [folded, whole] = [foldPath(below), foldPath(absolute)]
    return relative.some((fits) => fits(folded)) || absolutes.some((fits) => fits(whole))
  }
}

/** What different spellings of one name have in common on any file system. */
export const foldPath = (path: string): string =>
  path
    .normalize('NFKC')
    .replaceAll(/\p{Cf}/gu, '')
    .replaceAll('\\', '/')
    .toLowerCase()
