// Writes src/config/default-settings.json, which `parseFile` uses. The build runs this script first.
import { writeFileSync } from 'node:fs'
import { fileSchema } from '../src/config/config-schema.ts'

writeFileSync('src/config/default-settings.json', `${JSON.stringify(fileSchema.parse({}), null, 2)}\n`)
