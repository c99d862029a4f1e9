import type { Reading } from '../catalog/owner.ts'
import type { Caller } from '../core/caller.ts'
import type { View } from '../view/view.ts'
import type { BaseHost } from './server-host.ts'

/** Resources that are answers of tools, for the tools in this view. */
export const readingsOf = (view: View): readonly Reading[] =>
  view.owners.flatMap(({ readings = [] }) => readings.filter(({ tool }) => view.byId.has(tool)))

/** Reads a resource by calling its tool as this caller; undefined if no tool has the URI. */
export async function readReading(
  host: BaseHost,
  caller: Caller,
  uri: string,
  signal: AbortSignal,
): Promise<Readonly<Record<string, unknown>> | undefined> {
  const reading = readingsOf(host.view(caller)).find((one) => one.uri === uri)
  if (!reading) return undefined
  const { tool, input, mimeType } = reading
  const result = await host.surface.call({ name: tool, input, caller, signal })
  const value = result.kind === 'value' ? result.value : null
  return { contents: [{ uri, mimeType, text: typeof value === 'string' ? value : JSON.stringify(value) }] }
}
