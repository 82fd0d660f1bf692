// What no pod can work with in hot-upgrade sidecars. OpenKruise accepts it (SHU §6).

import { type JsonObject, listOr, objectOr } from '../base/json.ts';
import { type FieldError, forbidden, invalid, required } from '../core/field-error.ts';
import { type PlacedContainer, textOf } from './read.ts';
import { hotPair } from './types.ts';

/** Characters of the name of a hot-upgrade sidecar: its containers have two more. */
export const longestHotName = 61;

/** The problems of the hot-upgrade sidecars among the containers of a SidecarSet. */
export function hotUpgradeProblems(containers: readonly PlacedContainer[]): readonly FieldError[] {
  return containers
    .filter(({ container }) => objectOr(container.upgradeStrategy).upgradeType === 'HotUpgrade')
    .flatMap((hot) => problemsOf(hot, containers));
}

function problemsOf(
  { list, path, container }: PlacedContainer,
  all: readonly PlacedContainer[],
): readonly FieldError[] {
  const name = textOf(container.name);
  const emptyImage = textOf(objectOr(container.upgradeStrategy).hotUpgradeEmptyImage);
  const at = `${path}.upgradeStrategy.hotUpgradeEmptyImage`;
  const twins = all.filter(
    (other) => other.list === list && hotPair(name).some((twin) => twin === other.container.name),
  );
  return [
    ...(emptyImage === '' ? [required(at, 'the image of the idle container of a HotUpgrade sidecar')] : []),
    ...(emptyImage !== '' && emptyImage === container.image
      ? [invalid(at, emptyImage, 'must not be the image of the sidecar')]
      : []),
    ...(name.length > longestHotName
      ? [invalid(`${path}.name`, name, `must have at most ${longestHotName} characters with HotUpgrade`)]
      : []),
    ...portsOf(container).flatMap(({ hostPort }, index) =>
      typeof hostPort === 'number' && hostPort !== 0
        ? [forbidden(`${path}.ports[${index}].hostPort`, 'two containers of a pod cannot have the same host port')]
        : [],
    ),
    ...twins.map((twin) =>
      invalid(`${twin.path}.name`, twin.container.name, `is a container of HotUpgrade sidecar ${name}`),
    ),
  ];
}

function portsOf({ ports }: JsonObject): readonly JsonObject[] {
  return listOr(ports).map(objectOr);
}
