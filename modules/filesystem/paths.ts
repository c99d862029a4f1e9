import { existsSync, mkdirSync } from 'node:fs'
import { isAbsolute, relative, resolve } from 'node:path'
import { createPaths, type FolderEntry, type OpenFolder, type Paths, ToolError, type WalkOptions } from 'pegboard'
import { invalid, notFound } from '../_errors.ts'
import { ALIASES, type Alias, isInside, makeAliasFolder } from '../_folders.ts'
import { isReadonly, type Settings } from './config.ts'

const SETTING = 'modules.filesystem.config'

/** Cached per configuration, because compiling rules takes longer than reading most files. */
const pathsBySettings = new WeakMap<Settings, Paths>()

/** Guarded access to the configured folders and those of the aliases. */
export function pathsFor(settings: Settings): Paths {
  const paths = pathsBySettings.get(settings) ?? createAllPaths(settings)
  pathsBySettings.set(settings, paths)
  return paths
}

function createAllPaths(settings: Settings): Paths {
  createRoot(settings)
  const main = createMainPaths(settings)
  const pathsByAlias = new Map<Alias, Paths>()
  const pathsOfAlias = (alias: Alias): Paths => {
    const paths = pathsByAlias.get(alias) ?? createAliasPaths(settings, alias)
    pathsByAlias.set(alias, paths)
    return paths
  }
  /** `access`: the alias alone is a folder and cannot be used as a file. */
  const resolvePath = (path: string, access: 'read' | 'write' | 'list') => {
    const aliased = resolveAlias(settings, path, access)
    if (!aliased) return { paths: main, path, alias: undefined, toShownPath: (shown: string) => shown }
    const { alias, rest } = aliased
    const toShownPath = (shown: string): string => (shown === '.' ? alias : `${alias}/${shown}`)
    return { paths: pathsOfAlias(alias), path: rest, alias, toShownPath }
  }
  const resolveForWriting = async (path: string) => {
    const place = resolvePath(path, 'write')
    if (place.alias !== undefined && !isReadonly({ ...settings, readonly: settings.readonly ?? false }))
      await makeAliasFolder(place.alias, settings[place.alias], SETTING)
    return place
  }
  const withShownPath = (entry: FolderEntry, toShownPath: (shown: string) => string): FolderEntry => ({
    ...entry,
    path: toShownPath(entry.path),
  })
  return {
    roots: main.roots,
    readFile(requestedPath, use) {
      const { paths, path, toShownPath } = resolvePath(requestedPath, 'read')
      return paths.readFile(path, (file) => use({ ...file, path: toShownPath(file.path) }))
    },
    async listFolder(requestedPath, options) {
      const { paths, path, toShownPath } = resolvePath(requestedPath, 'list')
      const listed = await paths.listFolder(path, options)
      return {
        ...listed,
        path: toShownPath(listed.path),
        entries: listed.entries.map((entry) => withShownPath(entry, toShownPath)),
      }
    },
    async *walk(requestedPath, options = {}) {
      const { paths, path, alias, toShownPath } = resolvePath(requestedPath, 'list')
      if (alias === undefined) {
        yield* paths.walk(path, options)
        return
      }
      const { skip, entered, inside, signal }: WalkOptions = typeof options === 'function' ? { skip: options } : options
      const withShownPaths = <F extends OpenFolder>(folder: F): F => ({
        ...folder,
        path: toShownPath(folder.path),
        entries: folder.entries.map((entry) => withShownPath(entry, toShownPath)),
      })
      const inner = paths.walk(path, {
        ...(signal ? { signal } : {}),
        skip: (entry) => skip?.(withShownPath(entry, toShownPath)) ?? false,
        entered: async (folder) => entered?.(withShownPaths(folder)),
        ...(inside ? { inside: (folder) => inside(withShownPaths(folder)) } : {}),
      })
      for await (const entry of inner) yield withShownPath(entry, toShownPath)
    },
    async stat(requestedPath) {
      const { paths, path, toShownPath } = resolvePath(requestedPath, 'list')
      const facts = await paths.stat(path)
      return { ...facts, path: toShownPath(facts.path) }
    },
    async writeFile(requestedPath, data, options) {
      const { paths, path, toShownPath } = await resolveForWriting(requestedPath)
      const written = await paths.writeFile(path, data, options)
      return { ...written, path: toShownPath(written.path) }
    },
    async makeFolder(requestedPath, options) {
      const { paths, path, toShownPath } = await resolveForWriting(requestedPath)
      const written = await paths.makeFolder(path, options)
      return { ...written, path: toShownPath(written.path) }
    },
    async remove(requestedPath, options) {
      const { paths, path, toShownPath } = await resolveForWriting(requestedPath)
      const removed = await paths.remove(path, options)
      return { ...removed, path: toShownPath(removed.path) }
    },
    async move(from, to, options = {}) {
      const [source, target] = [await resolveForWriting(from), await resolveForWriting(to)]
      if (source.alias === target.alias) {
        const written = await source.paths.move(source.path, target.path, options)
        return { ...written, path: target.toShownPath(written.path) }
      }
      // Files cannot be renamed across folders with different access; the original is removed after the copy is
      // complete.
      const written = await source.paths.readFile(source.path, ({ handle, mode }) =>
        target.paths.writeFile(target.path, handle.createReadStream({ autoClose: false }), {
          mode,
          exclusive: !options.overwrite,
        }),
      )
      await source.paths.remove(source.path)
      return { ...written, path: target.toShownPath(written.path) }
    },
  }
}

function createMainPaths(settings: Settings): Paths {
  const absolute = (path: string): string => (isAbsolute(path) ? path : resolve(settings.workspace, path))
  const configuredRoots = settings.roots ?? (settings.root === undefined ? [settings.workspace] : [settings.root])
  const allowed = settings.allowed_paths.map(absolute)
  return createPaths({
    roots: [...configuredRoots.map(absolute), ...allowed],
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
function createRoot(settings: Settings): void {
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

function createAliasPaths(settings: Settings, alias: Alias): Paths {
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
export function resolveAlias(
  settings: Settings,
  path: string,
  access: 'read' | 'write' | 'list',
): { readonly alias: Alias; readonly rest: string } | undefined {
  for (const alias of ALIASES) {
    const base = settings[alias]
    if (path !== alias && !path.startsWith(`${alias}/`)) {
      if (base === '' || !isAbsolute(path) || !isInside(resolve(path), resolve(base))) continue
      return { alias, rest: relative(resolve(base), resolve(path)) || '.' }
    }
    if (base === '') throw notFound(`base dir ${alias} is not configured`, `Set ${SETTING}.${alias}.`)
    const rest = path.slice(alias.length + 1)
    if (rest === '' && access !== 'list')
      throw invalid(
        `invalid path: alias requires a relative file path (for example: ${alias}/notes/todo.md)`,
        'Name a file in it.',
      )
    if (!isInside(resolve(base, rest), resolve(base)))
      throw new ToolError(
        access === 'write'
          ? `refusing to write outside allowed base dirs (${ALIASES.join(', ')})`
          : `refusing to read outside allowed base dir ${alias}`,
        { code: 'E_PATH_OUTSIDE_ROOT', hint: 'Use a path without "..".' },
      )
    return { alias, rest: rest === '' ? '.' : rest }
  }
  return undefined
}
