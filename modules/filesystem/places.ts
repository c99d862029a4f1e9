import { existsSync, mkdirSync } from 'node:fs'
import { isAbsolute, relative, resolve } from 'node:path'
import { createPaths, type FolderEntry, type OpenFolder, type Paths, ToolError, type WalkOptions } from 'pegboard'
import { invalid, notFound } from '../_errors.ts'
import { ALIASES, type Alias, isInside, makeAliasFolder } from '../_folders.ts'
import { isReadonly, type Settings } from './config.ts'

const SETTING = 'modules.filesystem.config'

/** Cached per configuration, because compiling rules takes longer than reading most files. */
const pathsOf = new WeakMap<Settings, Paths>()

/** Guarded access to the configured folders and those of the aliases. */
export function pathsFor(settings: Settings): Paths {
  const paths = pathsOf.get(settings) ?? allPaths(settings)
  pathsOf.set(settings, paths)
  return paths
}

function allPaths(settings: Settings): Paths {
  makeRoot(settings)
  const main = mainPaths(settings)
  const pathsByAlias = new Map<Alias, Paths>()
  const behind = (alias: Alias): Paths => {
    const paths = pathsByAlias.get(alias) ?? aliasPaths(settings, alias)
    pathsByAlias.set(alias, paths)
    return paths
  }
  /** `what`: the alias alone is a folder and cannot be used as a file. */
  const at = (path: string, what: 'read' | 'write' | 'list') => {
    const place = placeOf(settings, path, what)
    if (!place) return { paths: main, path, alias: undefined, named: (shown: string) => shown }
    const { alias, rest } = place
    const named = (shown: string): string => (shown === '.' ? alias : `${alias}/${shown}`)
    return { paths: behind(alias), path: rest, alias, named }
  }
  const toWrite = async (path: string) => {
    const place = at(path, 'write')
    if (place.alias !== undefined && !isReadonly({ ...settings, readonly: settings.readonly ?? false }))
      await makeAliasFolder(place.alias, settings[place.alias], SETTING)
    return place
  }
  const renamed = (entry: FolderEntry, named: (shown: string) => string): FolderEntry => ({
    ...entry,
    path: named(entry.path),
  })
  return {
    roots: main.roots,
    readFile(requestedPath, use) {
      const { paths, path, named } = at(requestedPath, 'read')
      return paths.readFile(path, (file) => use({ ...file, path: named(file.path) }))
    },
    async listFolder(requestedPath, how) {
      const { paths, path, named } = at(requestedPath, 'list')
      const found = await paths.listFolder(path, how)
      return { ...found, path: named(found.path), entries: found.entries.map((entry) => renamed(entry, named)) }
    },
    async *walk(requestedPath, how = {}) {
      const { paths, path, alias, named } = at(requestedPath, 'list')
      if (alias === undefined) {
        yield* paths.walk(path, how)
        return
      }
      const { skip, entered, inside, signal }: WalkOptions = typeof how === 'function' ? { skip: how } : how
      const seen = <F extends OpenFolder>(folder: F): F => ({
        ...folder,
        path: named(folder.path),
        entries: folder.entries.map((entry) => renamed(entry, named)),
      })
      const inner = paths.walk(path, {
        ...(signal ? { signal } : {}),
        skip: (entry) => skip?.(renamed(entry, named)) ?? false,
        entered: async (folder) => entered?.(seen(folder)),
        ...(inside ? { inside: (folder) => inside(seen(folder)) } : {}),
      })
      for await (const entry of inner) yield renamed(entry, named)
    },
    async stat(requestedPath) {
      const { paths, path, named } = at(requestedPath, 'list')
      const facts = await paths.stat(path)
      return { ...facts, path: named(facts.path) }
    },
    async writeFile(requestedPath, data, how) {
      const { paths, path, named } = await toWrite(requestedPath)
      const written = await paths.writeFile(path, data, how)
      return { ...written, path: named(written.path) }
    },
    async makeFolder(requestedPath, how) {
      const { paths, path, named } = await toWrite(requestedPath)
      const written = await paths.makeFolder(path, how)
      return { ...written, path: named(written.path) }
    },
    async remove(requestedPath, how) {
      const { paths, path, named } = await toWrite(requestedPath)
      const removed = await paths.remove(path, how)
      return { ...removed, path: named(removed.path) }
    },
    async move(from, to, how = {}) {
      const [source, target] = [await toWrite(from), await toWrite(to)]
      if (source.alias === target.alias) {
        const written = await source.paths.move(source.path, target.path, how)
        return { ...written, path: target.named(written.path) }
      }
      // Files cannot be renamed across folders with different access; the original is removed after the copy is
      // complete.
      const written = await source.paths.readFile(source.path, ({ handle, mode }) =>
        target.paths.writeFile(target.path, handle.createReadStream({ autoClose: false }), {
          mode,
          exclusive: !how.overwrite,
        }),
      )
      await source.paths.remove(source.path)
      return { ...written, path: target.named(written.path) }
    },
  }
}

function mainPaths(settings: Settings): Paths {
  const absolute = (path: string): string => (isAbsolute(path) ? path : resolve(settings.workspace, path))
  const named = settings.roots ?? (settings.root === undefined ? [settings.workspace] : [settings.root])
  const allowed = settings.allowed_paths.map(absolute)
  return createPaths({
    roots: [...named.map(absolute), ...allowed],
    ...(settings.write_roots ? { writeRoots: settings.write_roots.map(absolute) } : {}),
    allowed,
    // Pegboard's own files, which include tokens, and its configuration.
    denied: [...settings.denied_paths, settings.state_dir, settings.config_file],
    denyNames: settings.deny_names,
    fixed: [settings.state_dir, settings.config_file],
    // These files decide what Pegboard runs.
    protected: [settings.modules_dir],
    readonly: isReadonly(settings),
  })
}

/** Creates a missing workspace folder that tools may write to. */
function makeRoot(settings: Settings): void {
  const [first] = settings.roots ?? (settings.root === undefined ? [] : [settings.root])
  if (first === undefined || isReadonly(settings)) return
  const path = resolve(settings.workspace, first)
  if (!isInside(path, resolve(settings.workspace)) || existsSync(path)) return
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 })
  } catch {
    // The caller that uses the folder reports the error.
  }
}

function aliasPaths(settings: Settings, alias: Alias): Paths {
  const base = resolve(settings[alias])
  return createPaths({
    roots: [base],
    // A part of the state folder may be given away, never the whole.
    denied: [
      ...settings.denied_paths,
      settings.config_file,
      ...(isInside(resolve(settings.state_dir), base) ? [settings.state_dir] : []),
    ],
    denyNames: settings.deny_names,
    fixed: [settings.config_file],
    protected: [settings.modules_dir],
    readonly: settings.readonly === true,
  })
}

/** The alias that a path begins with, or whose folder contains it, and the rest of the path. */
export function placeOf(
  settings: Settings,
  path: string,
  what: 'read' | 'write' | 'list',
): { readonly alias: Alias; readonly rest: string } | undefined {
  for (const alias of ALIASES) {
    const base = settings[alias]
    if (path !== alias && !path.startsWith(`${alias}/`)) {
      if (base === '' || !isAbsolute(path) || !isInside(resolve(path), resolve(base))) continue
      return { alias, rest: relative(resolve(base), resolve(path)) || '.' }
    }
    if (base === '') throw notFound(`base dir ${alias} is not configured`, `Set ${SETTING}.${alias}.`)
    const rest = path.slice(alias.length + 1)
    if (rest === '' && what !== 'list')
      throw invalid(
        `invalid path: alias requires a relative file path (for example: ${alias}/notes/todo.md)`,
        'Name a file in it.',
      )
    if (!isInside(resolve(base, rest), resolve(base)))
      throw new ToolError(
        what === 'write'
          ? `refusing to write outside allowed base dirs (${ALIASES.join(', ')})`
          : `refusing to read outside allowed base dir ${alias}`,
        { code: 'E_PATH_OUTSIDE_ROOT', hint: 'Use a path without "..".' },
      )
    return { alias, rest: rest === '' ? '.' : rest }
  }
  return undefined
}
