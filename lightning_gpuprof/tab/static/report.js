// The entry of an HTML report: the same views, fed with the data that the file carries.

import { mount } from "./app.js";
import { embeddedSource } from "./embedded_source.js";
import { followReader } from "./theme.js";

followReader();
mount(document.body, embeddedSource());
