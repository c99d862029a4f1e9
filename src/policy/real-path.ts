import { promises as fs, type lstatSync, type Stats, statSync } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { basename, dirname, join, resolve, sep } from 'node:path'
import { ToolError } from '../core/errors.ts'

/** On Linux, /proc gives a path for each open descriptor, so what was really opened can be checked. */
export const LINUX = process.platform === 'linux'

const WINDOWS = process.platform === 'win32'
/** The same limit on link chains as operating systems have. */
const MAX_HOPS = 40
const RESERVED = /^(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)/i

/** @throws ToolError E_VALIDATION for text that must not reach the file system */
export function checkPathText(path: string): void {
  const createPathError = (what: string): ToolError =>
    new ToolError(`The path ${what}.`, { code: 'E_VALIDATION', hint: 'Send a plain file path.' })
  if (path.length > 4096) throw createPathError('is longer than 4096 characters')
  if (path.includes('\0')) throw createPathError('holds a NUL character')
  // A lone surrogate would be written as U+FFFD.
  if (/\uFFFD|\p{Cs}/u.test(path)) throw createPathError('holds U+FFFD, which stands for bytes that were not text')
  if (!WINDOWS) return
  if (path.replace(/^[A-Za-z]:/, '').includes(':')) throw createPathError('holds a colon')
  for (const name of path.split(/[\\/]/))
    if (RESERVED.test(name) || /[^.][. ]$/.test(name)) throw createPathError('has a name that Windows reserves')
}

/** True if the path is the root or below it. Compares with a separator, so that /data/app-secret is not inside /data/app. */
export const isInside = (path: string, root: string): boolean =>
  path === root || path.startsWith(root.endsWith(sep) ? root : root + sep)

/** A path relative to a root, with `/`. */
export const pathBelow = (path: string, root: string): string =>
  path.slice(root.endsWith(sep) ? root.length : root.length + 1).replaceAll(sep, '/')

/** The real path of an open descriptor. Not on Linux: the path's real path, if it is still the same file. */
export async function realPathOf(handle: FileHandle, absolute: string): Promise<string> {
  if (LINUX) return await fs.readlink(`/proc/self/fd/${handle.fd}`)
  const real = await fs.realpath(absolute)
  const [opened, named] = await Promise.all([handle.stat(), fs.stat(real)])
  if (opened.dev !== named.dev || opened.ino !== named.ino)
    throw new ToolError('The file was replaced while it was opened.', { hint: 'Try again.' })
  return real
}

export async function realpathOrNone(path: string): Promise<string | undefined> {
  try {
    return await fs.realpath(path)
  } catch (error) {
    if (isUnreachable(error)) return undefined
    throw error
  }
}

/** The real path of something that may not exist yet. Follows links, including broken ones. */
export async function realForm(absolute: string, lookUp: LookUp = realpathOrNone, hops = 0): Promise<string> {
  const real = await lookUp(absolute)
  if (real !== undefined || absolute === dirname(absolute)) return real ?? absolute
  const folder = await realForm(dirname(absolute), lookUp, hops)
  const target = hops < MAX_HOPS ? await linkTarget(absolute) : undefined
  return target === undefined
    ? join(folder, basename(absolute))
    : await realForm(resolve(folder, target), lookUp, hops + 1)
}

async function linkTarget(path: string): Promise<string | undefined> {
  try {
    return await fs.readlink(path)
  } catch (error) {
    if (isUnreachable(error) || (error as NodeJS.ErrnoException).code === 'EINVAL') return undefined
    throw error
  }
}

/** Returns a path's real path, or undefined if it does not exist. */
export type LookUp = (path: string) => Promise<string | undefined>

const CACHE_MS = 1_000

/**
 * Caches real paths for the few paths of a configuration that every call asks for. An existing path is cached for a
 * second; a missing one is looked up each time.
 */
export function createRealPathCache(): LookUp {
  const cache = new Map<string, { readonly real: string; readonly until: number }>()
  return async (path) => {
    const cached = cache.get(path)
    if (cached && cached.until > performance.now()) return cached.real
    const real = await realpathOrNone(path)
    if (real === undefined) cache.delete(path)
    else cache.set(path, { real, until: performance.now() + CACHE_MS })
    return real
  }
}

/** The nearest existing folder at or above a path. */
export async function nearestFolder(path: string): Promise<string> {
  for (let at = path; ; at = dirname(at)) {
    try {
      await fs.lstat(at)
      return at
    } catch (error) {
      if (!isUnreachable(error) || at === dirname(at)) throw error
    }
  }
}

/**
 * Facts about a path; undefined if it does not exist or cannot be reached. The option `throwIfNoEntry` of Node.js throws if a
 * part of the path is a file.
 */
export function statOrNone(path: string, stat: typeof statSync | typeof lstatSync = statSync): Stats | undefined {
  try {
    return stat(path, { throwIfNoEntry: false })
  } catch (error) {
    if (isUnreachable(error)) return undefined
    throw error
  }
}

const isUnreachable = (error: unknown): boolean =>
  ['ENOENT', 'ENOTDIR', 'ELOOP', 'EACCES', 'ENAMETOOLONG'].includes((error as NodeJS.ErrnoException).code ?? '')
