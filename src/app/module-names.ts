import { readdirSync } from 'node:fs'
import type { Config } from '../config/load-config.ts'
import { ownPackage } from './package-info.ts'

/** Bundled modules and those that the file has settings for. */
export const moduleNames = (config: Pick<Config, 'modules'>): readonly string[] => [
  ...new Set([
    ...readdirSync(ownPackage().modules).flatMap((name) =>
      /^[a-z][\w-]*(?:\.[jt]s)?$/.test(name) ? [name.replace(/\.[jt]s$/, '')] : [],
    ),
    ...Object.keys(config.modules),
  ]),
]
