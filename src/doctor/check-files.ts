import { randomUUID } from 'node:crypto'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Config } from '../config/load-config.ts'
import { messageOf } from '../core/errors.ts'
import { silentLog } from '../core/log.ts'
import { replacedByOthers, writtenByOthers } from '../core/written-by-others.ts'
import { checkFreeSpace } from '../policy/free-space.ts'
import { createLock, lockFile } from '../trust/lock-file.ts'
import type { Reporter } from './findings.ts'

/** Permissions, the state folder, the disk and the lock file. */
export async function checkFiles({ file, modulesDir, dirs }: Config, report: Reporter): Promise<void> {
  const lock = lockFile(file)
  const looked = [
    ['configuration', file === undefined ? undefined : replacedByOthers(file)],
    ['lock file', lock === undefined ? undefined : writtenByOthers(lock)],
    ['modules folder', modulesDir === undefined ? undefined : writtenByOthers(modulesDir)],
    ['state folder', writtenByOthers(dirs.state)],
  ] as const
  for (const [about, why] of looked)
    if (why !== undefined) report.found({ code: 'config-unsafe', about, message: `The ${about} is not safe: ${why}.` })
  await checkState(dirs.state, report)
  const broken = lock === undefined ? undefined : createLock({ file: lock, log: silentLog }).broken
  if (broken !== undefined) report.found({ code: 'lock-damaged', about: 'lock file', message: `${broken}.` })
}

async function checkState(folder: string, report: Reporter): Promise<void> {
  const about = 'state folder'
  const trial = join(folder, `.doctor-${randomUUID()}`)
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    await writeFile(trial, '', { mode: 0o600, flag: 'wx' })
    await rm(trial)
    await checkFreeSpace(folder)
    report.passed({ about, message: folder })
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? messageOf(error)
    if (code === 'ENOSPC') report.found({ code: 'disk-full', about, message: `The disk of ${folder} is nearly full.` })
    else report.found({ code: 'state-unwritable', about, message: `${folder} cannot be written (${code}).` })
  }
}
