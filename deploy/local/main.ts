// `npm run up|down|status|logs|part`: the command line of the local platform.
import { instanceName } from './instance.ts';
import { localCommands } from './local-commands.ts';

try {
  await localCommands(instanceName(process.env)).parseAsync();
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
