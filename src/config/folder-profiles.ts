import { matchesGlob } from '../core/name-folding.ts'
import type { Config } from './load-config.ts'
import { type Machine, pathFrom } from './machine.ts'

/**
 * The profile whose `folders` names this folder or one above it; undefined if none does. The longest pattern wins.
 * Only for a process that a local user starts, and for the roots that it sends over stdio: they could also pass --profile.
 * The word of any other client must not choose a profile, because a profile can have servers of its own.
 */
export function profileForFolder(
  { profiles, file }: Pick<Config, 'profiles' | 'file'>,
  folder: string,
  machine: Machine,
): string | undefined {
  const base = file === undefined ? machine.cwd : pathFrom(machine.cwd, `${file}/..`, machine)
  let best: { readonly profile: string; readonly length: number } | undefined
  for (const [profile, { folders }] of Object.entries(profiles))
    for (const pattern of folders) {
      const path = withSlashes(pathFrom(base, pattern, machine))
      if (isBelow(withSlashes(folder), path) && path.length > (best?.length ?? 0))
        best = { profile, length: path.length }
    }
  return best?.profile
}

const withSlashes = (path: string): string => path.replaceAll('\\', '/').replace(/(?<=.)\/+$/, '')

/** True if the folder or one above it matches. `*` matches any characters of one name. */
function isBelow(folder: string, pattern: string): boolean {
  const names = folder.split('/')
  const parts = pattern === '/' ? [''] : pattern.split('/')
  return parts.length <= names.length && parts.every((part, at) => matchesName(names[at] ?? '', part))
}

const matchesName = (name: string, part: string): boolean =>
  part.includes('*') ? name !== '' && matchesGlob(part.split('*'), name) : name === part
