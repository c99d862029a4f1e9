import type { Reading } from '../catalog/catalog.ts'
import type { Caller } from '../core/context.ts'
import type { View } from '../view/view.ts'
import type { ServerHost } from './host.ts'

/** Resources that are answers of tools, as far as the tools are there. */
export const readingsOf = (view: View): readonly Reading[] =>
  view.owners.flatMap(({ readings = [] }) => readings.filter(({ tool }) => view.byId.has(tool)))

/** Calls the tool behind one, as this caller, like any other call of it; undefined when the URI is of none. */
export async function readReading(
  host: ServerHost,
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
