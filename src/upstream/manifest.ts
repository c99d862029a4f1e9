import { createHash } from 'node:crypto'
import type { ToolRecord } from './definition.ts'
import type { ServerSettings } from './settings.ts'

/** Which protocol a server spoke when last asked. */
export interface EraVerdict {
  readonly era: 'legacy' | 'modern'
  readonly transport: 'stdio' | 'http' | 'sse'
  /** Milliseconds since the epoch. A legacy verdict is tried again after a week: servers get updated. */
  readonly at: number
}

/** What a server offered when it was last connected; enough to list its tools without starting it. */
export interface Manifest {
  readonly format: 1
  readonly verdict: EraVerdict
  readonly capabilities: Readonly<Record<string, unknown>>
  readonly server?: { readonly name: string; readonly version: string }
  readonly tools: readonly ToolRecord[]
  readonly resources: readonly Readonly<Record<string, unknown>>[]
  readonly templates: readonly Readonly<Record<string, unknown>>[]
  readonly prompts: readonly Readonly<Record<string, unknown>>[]
}

/** Where manifests are kept. Plain JSON both ways. `get` is read once at start, so it should not be slow. */
export interface ManifestStore {
  get(hash: string): Manifest | undefined
  set(hash: string, manifest: Manifest): void
}

/** Names a manifest: the same for the same way to reach a server, whatever it is called or however it is filtered. */
export function manifestKey({ target }: ServerSettings): string {
  return createHash('sha256').update(JSON.stringify(target)).digest('hex').slice(0, 32)
}

/** Read back from disk, so anything may be in it. */
export function isManifest(value: unknown): value is Manifest {
  const manifest = value as Partial<Manifest> | null | undefined
  return (
    typeof manifest === 'object' &&
    manifest !== null &&
    manifest.format === 1 &&
    [manifest.tools, manifest.resources, manifest.templates, manifest.prompts].every(Array.isArray) &&
    typeof manifest.verdict?.era === 'string'
  )
}
