import type { Clock } from '../core/clock.ts'
import { PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { createFolder, createRecorder } from '../record/recorder.ts'
import { createReplay } from '../record/replay.ts'
import { createScrubber } from '../record/scrubber.ts'
import type { RecordAndReplay } from '../upstream/transport.ts'
import type { ServerSettings } from '../upstream/upstream-settings.ts'

export interface RecordingOptions {
  /** Folder to write the answers of servers to. */
  readonly record?: string | undefined
  /** Folder with recorded answers to use instead of the servers. */
  readonly replay?: string | undefined
}

export interface AppRecording extends RecordAndReplay {
  /** True while recording or replaying. Then lists that earlier runs stored are not used. */
  readonly isOn: boolean
  /** The settings to connect the servers with. In a replay, nobody logs in. */
  serversOf(servers: Readonly<Record<string, ServerSettings>>): Readonly<Record<string, ServerSettings>>
  close(): Promise<void>
}

/**
 * @param hide removes known secrets from a text
 * @throws PegboardError E_RECORDING for a folder that cannot be used
 */
export function createAppRecording(
  { record, replay }: RecordingOptions,
  { clock, log, hide }: { readonly clock: Clock; readonly log: Log; hide(text: string): string },
): AppRecording {
  const scrub = createScrubber(hide)
  if (record !== undefined && replay !== undefined)
    throw new PegboardError('E_RECORDING', 'Record and replay cannot be used together.')
  if (replay !== undefined)
    return {
      isOn: true,
      replay: createReplay(replay, scrub.all),
      serversOf: (servers) =>
        Object.fromEntries(Object.entries(servers).map(([id, { auth: _auth, ...settings }]) => [id, settings])),
      close: async () => undefined,
    }
  if (record === undefined) return { isOn: false, serversOf: (servers) => servers, close: async () => undefined }
  createFolder(record)
  const recorder = createRecorder({ dir: record, clock, log: log.scoped('record'), scrub })
  return { isOn: true, record: recorder.record, serversOf: (servers) => servers, close: recorder.close }
}
